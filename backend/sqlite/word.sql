-- The words of the lines. FTS5 keeps for each word the ids in table hit, and nothing else.

CREATE VIRTUAL TABLE word USING fts5 (
  words,
  content = '', contentless_delete = 1, detail = none,
  tokenize = "ascii tokenchars '!#$%&''()*+,-./:;<=>?@[\]^_`{|}~'"
);

-- A transaction's worth of lines in memory makes one segment, not many.
INSERT INTO word (word, rank) VALUES ('hashsize', 16777216);
-- Fewer merges make a quarter more lines a second; a search looks at a few more segments.
INSERT INTO word (word, rank) VALUES ('automerge', 8);

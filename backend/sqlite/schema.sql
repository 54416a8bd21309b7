-- Version 1. Times are microseconds since 1970-01-01T00:00:00Z.

CREATE TABLE record (
  kind    TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  version INTEGER NOT NULL,
  "group" TEXT    NOT NULL,
  state   TEXT    NOT NULL,
  due     INTEGER,              -- NULL: never
  updated INTEGER NOT NULL,     -- the time of the batch that put it
  touched INTEGER NOT NULL,     -- when the record or its log last changed, or the last microsecond of that second
  batch   TEXT    NOT NULL,
  sum     INTEGER NOT NULL,     -- CRC-32C over kind, id and body
  body    BLOB    NOT NULL,     -- TEXT when it begins like a JSON object, else BLOB
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE INDEX record_touched ON record (kind, touched DESC, id);
CREATE INDEX record_state   ON record (kind, state, touched DESC, id) WHERE state <> '';
CREATE INDEX record_group   ON record (kind, "group", touched DESC, id, state) WHERE "group" <> '';
CREATE INDEX record_due     ON record (kind, due, id) WHERE due IS NOT NULL;

CREATE TABLE log (
  number  INTEGER PRIMARY KEY,
  kind    TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  length  INTEGER NOT NULL,     -- the seq of the newest line
  updated INTEGER NOT NULL,     -- the time of the batch that wrote that line
  parent  INTEGER NOT NULL,     -- place and chain of that line
  depth   INTEGER NOT NULL,
  nodes   INTEGER NOT NULL,
  turn    INTEGER NOT NULL,
  chain   BLOB,
  sum     INTEGER NOT NULL,     -- CRC-32C over all of the above
  UNIQUE (kind, id)
);

CREATE TABLE line (
  id      INTEGER PRIMARY KEY,  -- log * 4294967296 + seq
  log     INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
  seq     INTEGER GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
  kind    TEXT    NOT NULL,
  "key"   TEXT,
  at      INTEGER NOT NULL,
  parent  INTEGER NOT NULL,
  depth   INTEGER NOT NULL,
  nodes   INTEGER NOT NULL,
  turn    INTEGER NOT NULL,
  chain   BLOB,
  batch   TEXT    NOT NULL,
  sum     INTEGER NOT NULL,     -- CRC-32C over everything but the batch
  body    BLOB    NOT NULL      -- TEXT when it begins like a JSON object, else BLOB
);

CREATE UNIQUE INDEX line_key ON line (log, "key") WHERE "key" IS NOT NULL;

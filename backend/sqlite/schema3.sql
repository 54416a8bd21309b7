-- Version 3 drops the index of version 2: the search index is kept in records and logs like any others.

DROP TABLE word;
DROP TABLE hit;
DROP INDEX log_behind;
ALTER TABLE log DROP COLUMN behind;
ALTER TABLE log DROP COLUMN indexed;

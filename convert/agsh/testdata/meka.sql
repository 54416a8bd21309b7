CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, parent_session_id TEXT REFERENCES sessions(id) ON DELETE CASCADE, cwd TEXT, permission TEXT, capabilities_json TEXT, token_id TEXT, additional_roots_json TEXT, subagent_spec_json TEXT, stat_turns INTEGER NOT NULL DEFAULT 0, stat_input_tokens INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, role TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE tool_outputs (session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, name TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL, PRIMARY KEY (session_id, name));
CREATE TABLE provider_credentials (profile TEXT PRIMARY KEY, credentials_json TEXT NOT NULL, updated_at TEXT NOT NULL);
INSERT INTO sessions VALUES ('33333333-3333-4333-8333-333333333333', '2026-08-01T08:00:00.000000001+00:00', '2026-08-01T09:00:00.000000001+00:00', NULL, '/home/ada/birds', 'write', NULL, 'fingerprint', NULL, NULL, 3, 1000);
INSERT INTO sessions VALUES ('44444444-4444-4444-8444-444444444444', '2026-08-01T08:01:00.000000001+00:00', '2026-08-01T08:02:00.000000001+00:00', '33333333-3333-4333-8333-333333333333', NULL, NULL, NULL, NULL, NULL, '{"depth":1}', 0, 0);
INSERT INTO sessions VALUES ('55555555-5555-4555-8555-555555555555', '2026-08-01T08:01:30+00:00', '2026-08-01T08:01:40+00:00', '44444444-4444-4444-8444-444444444444', NULL, NULL, NULL, NULL, NULL, NULL, 0, 0);
INSERT INTO messages VALUES (1, '33333333-3333-4333-8333-333333333333', 'user', '<context>
host: here
</context>

one', '2026-08-01T08:00:01.1+00:00');
INSERT INTO messages VALUES (2, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"u1","name":"spawn","input":{}}]', '2026-08-01T08:00:02.1+00:00');
INSERT INTO messages VALUES (3, '33333333-3333-4333-8333-333333333333', 'tool_results', '[{"type":"tool_result","tool_use_id":"u1","content":[{"type":"text","text":"started 44444444-4444-4444-8444-444444444444"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}],"is_error":false}]', '2026-08-01T08:00:03.1+00:00');
INSERT INTO messages VALUES (4, '33333333-3333-4333-8333-333333333333', 'user', 'two', '2026-08-01T08:00:04.1+00:00');
INSERT INTO messages VALUES (5, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"text","text":"second"}]', '2026-08-01T08:00:05.1+00:00');
INSERT INTO messages VALUES (6, '33333333-3333-4333-8333-333333333333', 'compact_boundary', '{"CompactBoundary":{"summary":{"role":"user","content":[{"type":"text","text":"[Conversation summary from session compaction]\n\nCounted to two."}]},"replaced_count":5,"loaded_tools_snapshot":["fetch"]}}', '2026-08-01T08:00:06.1+00:00');
INSERT INTO messages VALUES (7, '33333333-3333-4333-8333-333333333333', 'user', 'two', '2026-08-01T08:00:06.1+00:00');
INSERT INTO messages VALUES (8, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"text","text":"second"}]', '2026-08-01T08:00:06.1+00:00');
INSERT INTO messages VALUES (9, '33333333-3333-4333-8333-333333333333', 'user', 'wrong', '2026-08-01T08:00:09.1+00:00');
INSERT INTO messages VALUES (10, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"text","text":"oh"}]', '2026-08-01T08:00:10.1+00:00');
INSERT INTO messages VALUES (11, '33333333-3333-4333-8333-333333333333', 'repair', '{"Repair":{"replaced_count":2,"messages":[]}}', '2026-08-01T08:00:11.1+00:00');
INSERT INTO messages VALUES (12, '33333333-3333-4333-8333-333333333333', 'user_blocks', '[{"type":"text","text":"right"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]', '2026-08-01T08:00:12.1+00:00');
INSERT INTO messages VALUES (13, '33333333-3333-4333-8333-333333333333', 'redact', '{"Redact":{}}', '2026-08-01T08:00:13.1+00:00');
INSERT INTO messages VALUES (14, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"text","text":"mended"}]', '2026-08-01T08:00:14.1+00:00');
INSERT INTO messages VALUES (17, '33333333-3333-4333-8333-333333333333', 'assistant', '[{"type":"text","text":"fork a"}]', '2026-08-01T08:00:17.1+00:00');
INSERT INTO messages VALUES (18, '33333333-3333-4333-8333-333333333333', 'repair', '{"Repair":{"replaced_count":1,"messages":[]}}', '2026-08-01T08:00:18.1+00:00');
INSERT INTO messages VALUES (19, '44444444-4444-4444-8444-444444444444', 'user', 'helper task', '2026-08-01T08:01:01.1+00:00');
INSERT INTO messages VALUES (20, '44444444-4444-4444-8444-444444444444', 'assistant', '[{"type":"text","text":"helper done"}]', '2026-08-01T08:01:02.1+00:00');
INSERT INTO messages VALUES (21, '55555555-5555-4555-8555-555555555555', 'user', 'deeper', '2026-08-01T08:01:31.1+00:00');
INSERT INTO tool_outputs VALUES ('33333333-3333-4333-8333-333333333333', 'out_1', 'large', '2026-08-01T08:00:03.1+00:00');

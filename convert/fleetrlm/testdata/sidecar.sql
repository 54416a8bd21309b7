CREATE TABLE chat_sessions (id INTEGER PRIMARY KEY, title VARCHAR(255), status VARCHAR(8), model_name VARCHAR(255), external_session_id VARCHAR(255), owner_tenant VARCHAR(255), owner_user VARCHAR(255), workspace_id VARCHAR(255), _monotonic_turn_counter INTEGER, created_at DATETIME, updated_at DATETIME);
CREATE TABLE chat_turns (id INTEGER PRIMARY KEY, session_id INTEGER, turn_index INTEGER, user_message VARCHAR, assistant_message VARCHAR, tokens_in INTEGER, tokens_out INTEGER, latency_ms INTEGER, created_at DATETIME);
INSERT INTO chat_sessions VALUES (1, 'Tide tables', 'ACTIVE', 'small-model', 'tides', 'harbour', 'ada', 'lab', 2, '2026-04-02 08:59:00.000001', '2026-04-02 09:05:00.000001');
INSERT INTO chat_sessions VALUES (2, 'wrecks', 'ARCHIVED', NULL, 'wrecks', 'harbour', 'ada', 'lab', 1, '2026-04-01 10:00:00.000000', '2026-04-01 10:00:09.000000');
INSERT INTO chat_turns VALUES (1, 1, 0, 'Hello', 'Good morning.', NULL, NULL, NULL, '2026-04-02 08:59:00.000001');
INSERT INTO chat_turns VALUES (2, 1, 1, 'When is high water?', 'At 06:12.', 120, 9, 850, '2026-04-02 09:00:00.000002');
INSERT INTO chat_turns VALUES (3, 1, 2, 'Thanks', NULL, NULL, NULL, NULL, '2026-04-02 09:05:00.000003');
INSERT INTO chat_turns VALUES (4, 2, 0, 'Any wrecks here?', 'Two.', NULL, NULL, NULL, '2026-04-01 10:00:00.000000');

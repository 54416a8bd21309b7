package server

// Paths that more than one part of the server has to know.
const (
	sessionsPath = "/api/v1/sessions"
	mcpPath      = "/mcp"       // where other agents find the Model Context Protocol
	socketPath   = "/api/v1/ws" // where conversations are held
)

package request

// Paths that more than one part of the server has to know.
const (
	SessionsPath = "/api/v1/sessions"
	ImportPath   = "/api/v1/import"
	LinksPath    = "/api/v1/links"
	SharedPath   = "/shared/"   // where links lead strangers
	MCPPath      = "/mcp"       // where other agents find the Model Context Protocol
	SocketPath   = "/api/v1/ws" // where conversations are held
)

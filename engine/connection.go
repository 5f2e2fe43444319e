package engine

import (
	"context"
	"time"
)

// Connections reads the MCP servers whose tools agents may use. They are configured in a file of
// the host and cannot be changed here.
type Connections interface {
	// List lists the servers by name.
	List(ctx context.Context) ([]Connection, error)
	// Test connects to a server again and lists its tools, for at most 20 seconds. A
	// server that does not respond is not an error; the returned state says so. NotFound: no such
	// server.
	Test(ctx context.Context, name string) (Connection, error)
}

// The states of a connection.
const (
	ConnectionReady       = "ready"       // the last attempt to connect succeeded
	ConnectionUnreachable = "unreachable" // the last attempt failed
	ConnectionUnknown     = "unknown"     // no attempt yet
)

// Connection is a server as callers see it. It contains no secrets: no arguments, headers or
// environment, and a URL without user and query.
type Connection struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind" enum:"mcp_stdio,mcp_http"`
	Command   string    `json:"command,omitempty"` // without its arguments
	URL       string    `json:"url,omitempty"`
	Shared    bool      `json:"shared,omitempty"` // one connection for all sessions
	State     string    `json:"state" enum:"ready,unreachable,unknown"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // the last successful check
	Server    string    `json:"server,omitempty"`    // the name that the server reports
	Tools     []string  `json:"tools"`               // under the names that agents use
	LastError string    `json:"last_error,omitempty"`
}

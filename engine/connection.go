package engine

import (
	"context"
	"time"
)

// Connections shows the servers whose tools agents may use. They stand in a file of the host, so they are read here.
type Connections interface {
	// Connections lists them by name.
	Connections(ctx context.Context) ([]Connection, error)
	// TestConnection asks one anew what it has, for at most 20 seconds. That it does not answer stands in its state, and is no
	// error. NotFound: there is none of the name.
	TestConnection(ctx context.Context, name string) (Connection, error)
}

// The states of a connection.
const (
	ConnectionReady       = "ready"       // it answered when it was asked last
	ConnectionUnreachable = "unreachable" // it did not
	ConnectionUnknown     = "unknown"     // it was not asked yet
)

// Connection is a server as callers see it. It holds no secret: no arguments, headers and environment, and of a URL neither user nor
// query.
type Connection struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind" enum:"mcp_stdio,mcp_http"`
	Command   string    `json:"command,omitempty"` // without its arguments
	URL       string    `json:"url,omitempty"`
	Shared    bool      `json:"shared,omitempty"` // one for all sessions
	State     string    `json:"state" enum:"ready,unreachable,unknown"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // when it answered last
	Server    string    `json:"server,omitempty"`    // what it calls itself
	Tools     []string  `json:"tools"`               // as agents call them
	LastError string    `json:"last_error,omitempty"`
}

// Providers shows where models are asked.
type Providers interface {
	// Providers lists them by name.
	Providers(ctx context.Context) ([]Provider, error)
}

// Provider is a provider of models as callers see it.
type Provider struct {
	Name    string `json:"name"`               // the word before the colon in the name of a model
	Kind    string `json:"kind"`               // openai, anthropic or scripted
	BaseURL string `json:"base_url,omitempty"` // empty: the provider's own, unless a model names another one
	Ready   bool   `json:"ready"`
	Missing string `json:"missing,omitempty"` // what keeps it from being asked
}

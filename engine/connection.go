package engine

import (
	"context"
	"time"
)

// Connections reads the MCP servers whose tools agents may use, and manages the accounts of users
// at other services. The servers are configured in a file of the host and cannot be changed here.
type Connections interface {
	Accounts

	// List lists the accounts of a user by provider, then the servers by name. An empty user is the
	// acting one; * is every user of the org.
	List(ctx context.Context, user string) ([]Connection, error)
	// Test tests the account of the acting user at a provider: its token is opened, and refreshed
	// if it is about to expire. If there is no account of that name, Test connects to the server of
	// that name again and lists its tools, for at most 20 seconds. A server that does not respond,
	// and an account whose token cannot be used, are not errors; the returned state says so.
	// NotFound: no such account or server.
	Test(ctx context.Context, name string) (Connection, error)
}

// Accounts manages the accounts of users at other services: a token that the user gives, or the
// grant of an OAuth 2.0 authorization. No method returns a token. Unavailable, in every method: the
// host has no keyring to encrypt tokens with.
type Accounts interface {
	// Put stores a token that a user gives, replacing an earlier connection to the provider. Calls
	// that wait for the connection continue. Invalid: the error says what is wrong, and does not
	// contain the token.
	Put(ctx context.Context, w ConnectionWrite) (Connection, error)
	// Remove removes the connection of a user; an empty user is the acting one. The token is not
	// revoked at the provider. NotFound: there is none.
	Remove(ctx context.Context, provider, user string) error
	// Begin begins an OAuth 2.0 authorization. The user opens the returned URL. NotFound: the host
	// has no configuration for the provider. Invalid: the redirect URL is not allowed. Limit: too
	// many authorizations of the org have begun and not ended.
	Begin(ctx context.Context, r ConnectionRequest) (ConnectionFlow, error)
	// Finish ends an authorization with the answer of the provider, and stores the connection. Each
	// state can be used once. Calls that wait for the connection continue. NotFound: the state is
	// unknown, used, expired, or belongs to another user. Denied: the user or the provider refused.
	// Unavailable: the provider does not answer; begin again.
	Finish(ctx context.Context, a ConnectionAnswer) (Connection, error)
}

// ConnectionWrite is a connection with a token that a user gives.
type ConnectionWrite struct {
	Provider  string
	User      string    // empty: the acting user
	Token     string    // never returned or logged
	Owner     string    // of the account, for the cleanup of resources; empty: the user
	Hosts     []string  // to which requests of tools may carry the token; empty: none
	ExpiresAt time.Time // of the token; zero: unknown, or never
}

// String hides the token.
func (w ConnectionWrite) String() string { return "connection of " + w.User + " to " + w.Provider }

// GoString hides the token.
func (w ConnectionWrite) GoString() string { return w.String() }

// ConnectionRequest begins an authorization.
type ConnectionRequest struct {
	Provider string
	User     string // empty: the acting user
	// RedirectURL is where the provider sends the browser afterwards: an address of this machine,
	// such as http://127.0.0.1:PORT/callback. Empty: the one that the host has configured.
	RedirectURL string
}

// ConnectionFlow is an authorization that has begun.
type ConnectionFlow struct {
	URL       string    `json:"url"`   // to open in a browser; it belongs to the acting user alone
	State     string    `json:"state"` // identifies the authorization; to keep secret
	ExpiresAt time.Time `json:"expires_at"`
}

// ConnectionAnswer is what the provider answered, as it stands in the query of the redirect URL.
type ConnectionAnswer struct {
	State string `json:"state"`
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"` // instead of a code
	// Repeated says that an earlier attempt of the same request may have taken effect. If it has,
	// Finish returns the connection that it made.
	Repeated bool `json:"-"`
}

// ConnectionAccount is the kind of a connection that is an account of a user; the others are
// servers.
const ConnectionAccount = "account"

// The states of a connection.
const (
	ConnectionExpired     = "expired"     // of an account: its token can no longer be used; connect again
	ConnectionReady       = "ready"       // the last attempt to connect succeeded
	ConnectionUnreachable = "unreachable" // the last attempt failed
	ConnectionUnknown     = "unknown"     // no attempt yet
)

// Connection is a server or an account as callers see it. It contains no secrets: no token, no
// arguments, headers or environment, and a URL without user and query.
type Connection struct {
	Name      string    `json:"name"` // of an account: the provider
	Kind      string    `json:"kind" enum:"account,mcp_stdio,mcp_http"`
	Command   string    `json:"command,omitempty"` // without its arguments
	URL       string    `json:"url,omitempty"`
	Shared    bool      `json:"shared,omitempty"` // one connection for all sessions
	State     string    `json:"state" enum:"ready,expired,unreachable,unknown"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // the last successful check
	Server    string    `json:"server,omitempty"`    // the name that the server reports
	Tools     []string  `json:"tools"`               // under the names that agents use
	LastError string    `json:"last_error,omitempty"`
	Accounts  []string  `json:"accounts,omitempty"` // of a server: the accounts whose tokens its headers name

	// Of an account only.
	User      string    `json:"user,omitempty"`
	Owner     string    `json:"owner,omitempty"`     // of the account at the provider
	Hosts     []string  `json:"hosts,omitempty"`     // to which requests of tools may carry the token
	Scopes    []string  `json:"scopes,omitempty"`    // as the provider granted them
	OAuth     bool      `json:"oauth,omitempty"`     // made by an authorization; false: a token that a user gave
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of the present token; a new one is fetched before
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

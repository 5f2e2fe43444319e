package app

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// withHeaders adds the headers of a server to requests to that server only.
type withHeaders struct {
	next    http.RoundTripper
	host    string
	headers map[string]string
	// The values of the references in the headers; nil: there are none, and such a header is left
	// out.
	secrets func() []perdure.WebSecret
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.host {
		return w.next.RoundTrip(r)
	}
	sent := r.Clone(r.Context())
	var secrets []perdure.WebSecret
	if w.secrets != nil {
		secrets = w.secrets()
	}
	for name, value := range w.headers {
		value = os.ExpandEnv(value)
		if refs := refsIn(value); len(refs) == 0 || hasAll(secrets, refs) {
			sent.Header.Set(name, value)
		}
	}
	if err := egress.InsertSecrets(sent, secrets); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport closes the body, also on errors
		}
		return nil, err
	}
	return w.next.RoundTrip(sent)
}

// refsIn returns the references to secrets and connections in a text.
func refsIn(text string) []perdure.SecretRef {
	return perdure.WebRequest{Header: map[string][]string{"": {text}}}.SecretRefs()
}

// hasAll reports whether there is a value for every reference.
func hasAll(secrets []perdure.WebSecret, refs []perdure.SecretRef) bool {
	found := 0
	for _, ref := range refs {
		for _, s := range secrets {
			if s.Ref == ref {
				found++
				break
			}
		}
	}
	return found == len(refs)
}

// secretRefs returns the references in the headers of a server.
func (m mcpServer) secretRefs() []perdure.SecretRef {
	header := map[string][]string{}
	for name, value := range m.Headers {
		header[name] = []string{os.ExpandEnv(value)}
	}
	return perdure.WebRequest{Header: header}.SecretRefs()
}

// openSecrets opens the values of the references in the headers of a server, as far as its host may
// have them.
func (m mcpServer) openSecrets(ctx context.Context, of tool.Ports) (opened []perdure.WebSecret, err error) {
	host := ""
	if u, err := url.Parse(m.URL); err == nil {
		host = strings.ToLower(u.Hostname())
	}
	for _, ref := range m.secretRefs() {
		s, err := of.OpenSecret(ctx, ref, host)
		if err != nil {
			return nil, err
		}
		opened = append(opened, s)
	}
	return opened, nil
}

// How long the values of a session are kept after its last call, and how many sessions may have
// some before others are looked at.
const (
	headerSecretTime = 24 * time.Hour
	headerSessions   = 1_000
)

// headerSecrets holds the values of the references in the headers of one server, by connection:
// that of a session, or of a user outside any session. They are opened before each call, and only
// in memory. It is safe for concurrent use.
type headerSecrets struct {
	of mcpServer

	mu       sync.Mutex
	sessions map[perdure.SessionID]sessionHeaders // guarded by mu
}

// sessionHeaders are the values of one session.
type sessionHeaders struct {
	secrets []perdure.WebSecret
	at      time.Time
}

// open opens the values for a call. It implements mcptool.ServerConfig.BeforeCall. If one of them
// cannot be opened, for instance because the connection was deleted, those of earlier calls of the
// session are forgotten.
func (h *headerSecrets) open(ctx context.Context, env tool.Env) (err error) {
	defer func() {
		if err != nil {
			h.forget(mcptool.ConnectionOf(env.Call))
		}
	}()
	opened, err := h.of.openSecrets(ctx, env.Ports)
	if denial := (*perdure.EgressError)(nil); errors.As(err, &denial) {
		return tool.Errorf("The MCP server was not called: %s", denial.Text)
	}
	if err != nil || len(opened) == 0 {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if len(h.sessions) >= headerSessions {
		for id, one := range h.sessions {
			if now.Sub(one.at) > headerSecretTime {
				delete(h.sessions, id)
			}
		}
	}
	if h.sessions == nil {
		h.sessions = map[perdure.SessionID]sessionHeaders{}
	}
	h.sessions[mcptool.ConnectionOf(env.Call)] = sessionHeaders{opened, now}
	return nil
}

// forget removes the values of a session.
func (h *headerSecrets) forget(id perdure.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
}

// valuesOf returns the values of a session.
func (h *headerSecrets) valuesOf(id perdure.SessionID) []perdure.WebSecret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id].secrets
}

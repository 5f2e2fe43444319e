package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// The limits of links.
const (
	linkTime = 10 * time.Minute // how long a link can be used
	maxLinks = 100              // links that are open at once; the oldest is dropped
)

// Links are the one-time links of a server, each of which signs one browser in. They are in memory
// only: a restart voids them. It is safe for concurrent use.
type Links struct {
	mu      sync.Mutex
	address string // guarded by mu; of the server; empty: it has no pages
	open    []link // guarded by mu; oldest first
}

// link is one open link. Only a hash of its code is kept.
type link struct {
	hash    [sha256.Size]byte
	expires time.Time
}

// SetAddress sets the address of the server as browsers reach it, without a trailing slash.
func (l *Links) SetAddress(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = address
}

// Create returns a new link and when it expires. ok is false while the server has no pages.
//
// The code stands in the fragment of the address, which browsers do not send: it enters no log of a
// server or a proxy, and a program that previews links does not use it up.
func (l *Links) Create() (address string, expires time.Time, ok bool) {
	code := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.address == "" {
		return "", expires, false
	}
	expires = time.Now().Add(linkTime)
	l.add(link{sha256.Sum256([]byte(code)), expires})
	return l.address + Root + "#link=" + code, expires, true
}

// add adds a link. The caller holds the mutex.
func (l *Links) add(one link) {
	if len(l.open) >= maxLinks {
		l.open = l.open[1:]
	}
	l.open = append(l.open, one)
}

// take uses a code up. ok is false if the code is unknown, used or expired. restore makes the code
// usable again, for a sign-in that failed.
func (l *Links) take(code string) (restore func(), ok bool) {
	hash := sha256.Sum256([]byte(code))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, one := range l.open {
		if one.hash != hash {
			continue
		}
		l.open = append(l.open[:i:i], l.open[i+1:]...)
		restore = func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.add(one)
		}
		return restore, time.Now().Before(one.expires)
	}
	return nil, false
}

// createLink answers the owner of the socket with a link.
func (h *Handler) createLink(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, r, http.StatusMethodNotAllowed, r.Method+" is not allowed for this path; allowed: "+http.MethodPost)
		return
	}
	address, expires, ok := h.cfg.Links.Create()
	if !ok {
		refuse(w, r, http.StatusConflict, "the process that holds the data directory serves no pages; `perdure serve` does")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"url": address, "expires_at": expires}) // the client may be gone
}

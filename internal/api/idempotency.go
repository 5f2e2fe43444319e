package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Keys remembers requests by their idempotency key for at least 24 hours, across restarts (H4, R15).
// It is safe for concurrent use.
type Keys interface {
	// Begin notes a request before it is carried out, or returns what is known of it. It is durable when Begin
	// returns. r comes with Scope, Key, Hash, a fresh random Seed and At; a new request is stored as it came.
	//
	// Of what it returns: Status is not 0: the stored answer. Else the request is to be carried out with the
	// returned Seed and At; a Seed other than r's says that it was begun before and has no answer.
	// KeyReused: the scope and key are known with another hash.
	Begin(ctx context.Context, r Request) (Request, error)
	// End stores the answer: Status, ContentType, Location and Body. Ending again leaves the first answer.
	End(ctx context.Context, r Request) error
}

// Request is one request that came with an idempotency key, and its answer once there is one.
type Request struct {
	Scope, Key  string   // Scope: principal, method and path
	Hash        string   // of the body, in hex
	Seed        [32]byte // the ids that the request makes are derived from it
	At          time.Time
	Status      int // 0: there is no answer yet
	ContentType string
	Location    string
	Body        []byte
}

// KeyReused is the error of a key that came before with another body (422).
const KeyReused reuse = "idempotency key reused"

// reuse is the type of KeyReused.
type reuse string

// Error is the text of KeyReused.
func (r reuse) Error() string { return string(r) }

// keepTime is how long the answer's way into memory may take once the work is done.
const keepTime = 5 * time.Second

// inWork are the requests with a key that this process carries out now.
type inWork struct {
	mu   sync.Mutex
	keys map[string]bool // guarded by mu
}

// enter reports whether nobody else carries the request out; leave is then to be called.
func (w *inWork) enter(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[key] {
		return false
	}
	w.keys[key] = true
	return true
}

func (w *inWork) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
}

// once carries a write out, one with an idempotency key once (H4): again, it gets the first answer, byte for byte.
func (a *API) once(w http.ResponseWriter, r *http.Request, pattern string, do func(http.ResponseWriter)) error {
	key, named, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if !named {
		if known := a.routes[pattern]; known.tells || known.sent {
			answer := record(w, do)
			a.tagAnswer(w, r, pattern, answer)
			show(w, answer)
			return nil
		}
		do(w)
		return nil
	}
	if a.cfg.Keys == nil {
		return &Problem{Status: http.StatusNotImplemented, Detail: "this server remembers no idempotency keys; send the request without one"}
	}
	req := requestOf(r.Context())
	scope := req.principal + " " + r.Method + " " + r.URL.Path
	if !a.work.enter(scope + "\x00" + key) {
		return &Problem{Status: http.StatusConflict, Detail: "a request with this idempotency key is in work; ask again for its answer"}
	}
	defer a.work.leave(scope + "\x00" + key)
	asked := Request{Scope: scope, Key: key, Hash: requestHash(r, pattern, req.body), Seed: req.seed, At: req.at.UTC().Truncate(time.Microsecond)}
	known, err := a.cfg.Keys.Begin(r.Context(), asked)
	if err != nil {
		return fmt.Errorf("note the idempotency key: %w", err)
	}
	if known.Status != 0 {
		w.Header().Set("Idempotency-Replayed", "true")
		a.tagAnswer(w, r, pattern, known)
		show(w, known)
		return nil
	}
	req.named, req.again, req.seed, req.at = true, known.Seed != asked.Seed, known.Seed, known.At
	answer := record(w, do)
	answer.Scope, answer.Key, answer.Hash, answer.Seed, answer.At = asked.Scope, asked.Key, asked.Hash, known.Seed, known.At
	if !req.secret {
		a.keep(r.Context(), answer)
	}
	a.tagAnswer(w, r, pattern, answer)
	show(w, answer)
	return nil
}

// record carries a request out and returns its answer instead of sending it.
func record(w http.ResponseWriter, do func(http.ResponseWriter)) Request {
	seen := &recorder{header: w.Header()}
	do(seen)
	return Request{Status: seen.status, ContentType: seen.header.Get("Content-Type"), Location: seen.header.Get("Location"), Body: seen.body.Bytes()}
}

// requestHash is the identity of what is asked under a key. Of what holds a secret only so much is kept as tells two requests
// apart, and too little to find the secret by guessing.
func requestHash(r *http.Request, pattern string, body []byte) string {
	if r.URL.RawQuery != "" {
		body = append([]byte(r.URL.RawQuery+"\n"), body...)
	}
	sum := hash(body)
	if strings.Contains(pattern, "/secrets/") {
		return sum[:4]
	}
	return sum
}

// keep stores the answer of a request. What says that the request may succeed later is no answer for ever, and is
// not stored. If it cannot be stored the answer stands: sent again, the request is carried out with the same ids.
func (a *API) keep(ctx context.Context, r Request) {
	if r.Status == 0 || r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := a.cfg.Keys.End(ctx, r); err != nil {
		a.cfg.Log.Warn("the answer to a request with an idempotency key was not kept", "request_id", requestOf(ctx).id, "error", err)
	}
}

// show writes an answer as it was kept.
func show(w http.ResponseWriter, r Request) {
	if r.Location != "" {
		w.Header().Set("Location", r.Location)
	}
	if r.ContentType != "" {
		w.Header().Set("Content-Type", r.ContentType)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // a client that is gone asks again
}

// idempotencyKey is the key of a request, if it has one.
func idempotencyKey(r *http.Request) (key string, named bool, err error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", false, nil
	}
	key = values[0]
	visible := func(c rune) bool { return c > ' ' && c <= '~' }
	if len(values) > 1 || len(key) < 1 || len(key) > 255 || strings.IndexFunc(key, func(c rune) bool { return !visible(c) }) >= 0 {
		return "", false, invalid("header.Idempotency-Key", "one value of 1 to 255 visible ASCII characters")
	}
	return key, true, nil
}

// hash is the identity of a body.
func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

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

// Keys remembers requests by idempotency key for at least 24 hours, across restarts (H4, R15).
// It is safe for concurrent use.
type Keys interface {
	// Begin records a request before it runs, or returns what is already recorded for its key. The
	// requestRecord is durable when Begin returns. r carries Scope, Key, Hash, a fresh random Seed
	// and At; a new request is stored with these.
	//
	// If Status in the result is not 0, the result is the stored response. Otherwise the caller
	// runs the request with the returned Seed and At. A Seed other than r's means that an earlier
	// attempt was started and has no stored response. KeyReused: scope and key are recorded with
	// another hash.
	Begin(ctx context.Context, r Request) (Request, error)
	// End stores the response: Status, ContentType, Location and Body. If a response is already
	// stored, it stays.
	End(ctx context.Context, r Request) error
}

// Request is a request with an idempotency key and, once it has run, its response.
type Request struct {
	Scope, Key  string   // Scope consists of principal, method and path
	Hash        string   // of the body, in hex
	StopsWork   bool     // its operation stops work or revokes a token: it is recorded even on a full disk
	Seed        [32]byte // the ids of resources created by the request are derived from it
	At          time.Time
	Status      int // 0: no response yet
	ContentType string
	Location    string
	Body        []byte
}

// KeyReused is the error for a key that was used before with another request (422).
const KeyReused keyReusedError = "idempotency key reused"

// keyReusedError is the type of KeyReused.
type keyReusedError string

// Error returns the text of KeyReused.
func (r keyReusedError) Error() string { return string(r) }

// storeTimeout is the timeout for storing the response after the request has run.
const storeTimeout = 5 * time.Second

// inProgressKeys holds the keys of requests in progress in this process.
type inProgressKeys struct {
	mu   sync.Mutex
	keys map[string]bool // guarded by mu
}

// add reports whether no other goroutine is running the request. If true, the caller must call
// leave.
func (w *inProgressKeys) add(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[key] {
		return false
	}
	w.keys[key] = true
	return true
}

func (w *inProgressKeys) remove(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
}

// once runs a write. A write with an idempotency key runs once (H4): a repeated request gets the
// first response, byte for byte.
func (a *API) once(w http.ResponseWriter, r *http.Request, pattern string, do func(http.ResponseWriter)) error {
	operation := a.routes[pattern]
	key, named, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if !named {
		if operation.returnsResource || operation.bodyIsResource {
			answer := requestRecord(w, do)
			a.tagAnswer(w, r, pattern, answer)
			writeStored(w, answer)
			return nil
		}
		do(w)
		return nil
	}
	if a.cfg.Keys == nil {
		return &Problem{Status: http.StatusNotImplemented, Detail: "this server does not support idempotency keys; send the request without one"}
	}
	req := requestOf(r.Context())
	scope := req.principal + " " + r.Method + " " + r.URL.Path
	if !a.inProgress.add(scope + "\x00" + key) {
		return &Problem{Status: http.StatusConflict, Detail: "a request with this idempotency key is in progress; retry to get its response"}
	}
	defer a.inProgress.remove(scope + "\x00" + key)
	asked := Request{
		Scope: scope, Key: key, Hash: requestHash(r, operation.secret, req.body), Seed: req.seed, At: req.at.UTC().Truncate(time.Microsecond),
		StopsWork: operation.class == stopsWork,
	}
	known, err := a.cfg.Keys.Begin(r.Context(), asked)
	if err != nil {
		return fmt.Errorf("record the idempotency key: %w", err)
	}
	if known.Status != 0 {
		w.Header().Set("Idempotency-Replayed", "true")
		a.cfg.Telemetry.Replayed()
		a.tagAnswer(w, r, pattern, known)
		writeStored(w, known)
		return nil
	}
	req.hasKey, req.repeated, req.seed, req.at = true, known.Seed != asked.Seed, known.Seed, known.At
	answer := requestRecord(w, do)
	answer.Scope, answer.Key, answer.Hash, answer.StopsWork, answer.Seed, answer.At = asked.Scope, asked.Key, asked.Hash, asked.StopsWork, known.Seed, known.At
	if !req.secret {
		a.storeResponse(r.Context(), answer)
	}
	a.tagAnswer(w, r, pattern, answer)
	writeStored(w, answer)
	return nil
}

// requestRecord runs a request and returns its response instead of sending it.
func requestRecord(w http.ResponseWriter, do func(http.ResponseWriter)) Request {
	seen := &recorder{header: w.Header()}
	do(seen)
	return Request{Status: seen.status, ContentType: seen.header.Get("Content-Type"), Location: seen.header.Get("Location"), Body: seen.body.Bytes()}
}

// requestHash identifies a request sent under a key. For a request that contains a secret, the hash
// is shortened: long enough to tell two requests apart, too short to find the secret by guessing.
func requestHash(r *http.Request, secret bool, body []byte) string {
	if r.URL.RawQuery != "" {
		body = append([]byte(r.URL.RawQuery+"\n"), body...)
	}
	sum := hash(body)
	if secret {
		return sum[:4]
	}
	return sum
}

// storeResponse stores the response of a request. A response that allows a later retry to succeed
// is not stored. If storing fails, the response is still sent: a repeated request runs again with
// the same ids.
func (a *API) storeResponse(ctx context.Context, r Request) {
	if r.Status == 0 || r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := a.cfg.Keys.End(ctx, r); err != nil {
		a.cfg.Log.WarnContext(ctx, "response for idempotency key not stored", "request_id", requestOf(ctx).id, "error", err)
	}
}

// writeStored writes a stored response.
func writeStored(w http.ResponseWriter, r Request) {
	if r.Location != "" {
		w.Header().Set("Location", r.Location)
	}
	if r.ContentType != "" {
		w.Header().Set("Content-Type", r.ContentType)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client may be gone; it can ask again
}

// idempotencyKey returns the key of a request, if it has one.
func idempotencyKey(r *http.Request) (key string, named bool, err error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", false, nil
	}
	key = values[0]
	visible := func(c rune) bool { return c > ' ' && c <= '~' }
	if len(values) > 1 || len(key) < 1 || len(key) > 255 || strings.IndexFunc(key, func(c rune) bool { return !visible(c) }) >= 0 {
		return "", false, invalid("header.Idempotency-Key", "must be one value of 1 to 255 visible ASCII characters")
	}
	return key, true, nil
}

// hash returns the SHA-256 of a body in hex.
func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

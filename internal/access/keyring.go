package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

// Unknown is the error for a secret that is not valid. It does not reveal whether the secret was
// ever valid.
const Unknown refusal = "the token is unknown to this server, has expired or was revoked"

// Ended is the cause of a request's context after its token was revoked or has expired.
const Ended refusal = "the token has expired or was revoked in the meantime"

// refusal is the type of Unknown and Ended.
type refusal string

func (r refusal) Error() string { return string(r) }

// Wait is the error for an address that has sent too many invalid tokens.
type Wait struct{ For time.Duration }

// Error states how long to wait.
func (w *Wait) Error() string {
	return fmt.Sprintf("too many invalid tokens from this address; try again in %s", w.For.Round(time.Second))
}

// Config configures a Keyring.
type Config struct {
	Store store.Store // contains the tokens; nil: only the root token is valid
	Root  string      // the secret of the data directory's own token; empty: there is no root token
	Log   *slog.Logger

	FailureBurst    int           // invalid tokens per address in a burst; 0: 30
	FailureInterval time.Duration // after which one more is allowed; 0: 1 s
	CheckInterval   time.Duration // how often tokens in use are checked; 0: 300 ms
}

// The use of a token is recorded at most once per usedEvery. seenTokens tokens are remembered for
// that.
const (
	usedEvery  = time.Minute
	usedTime   = 2 * time.Second // timeout of that write
	seenTokens = 4096
)

// Keyring authenticates bearers of secrets. It looks secrets up by their hash, so the duration
// reveals nothing about a secret. It is safe for concurrent use.
type Keyring struct {
	cfg      Config
	root     [sha256.Size]byte
	failures RateLimiter[netip.Addr] // invalid tokens

	mu      sync.Mutex
	seen    map[string]use                            // guarded by mu; by hash
	watched map[perdure.TokenID]map[*openRequest]bool // guarded by mu; the open requests
	// guarded by mu; ends the watch of open requests; nil: none is running
	end context.CancelFunc
}

// use is the last use of a valid token.
type use struct {
	id      string    // of the token
	written time.Time // when its use was last recorded
}

// NewKeyring returns a keyring.
func NewKeyring(cfg Config) *Keyring {
	if cfg.FailureBurst <= 0 {
		cfg.FailureBurst = 30
	}
	if cfg.FailureInterval <= 0 {
		cfg.FailureInterval = time.Second
	}
	if cfg.CheckInterval <= 0 {
		cfg.CheckInterval = 300 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keyring{
		cfg: cfg, root: sha256.Sum256([]byte(cfg.Root)),
		failures: RateLimiter[netip.Addr]{Burst: cfg.FailureBurst, Every: cfg.FailureInterval}, seen: map[string]use{},
		watched: map[perdure.TokenID]map[*openRequest]bool{},
	}
}

// Verify authenticates the bearer of a secret. remote is the address of the client, as in net/http.
// Unknown: the secret is not valid. *Wait: the address has sent too many invalid tokens; a token
// that was valid before is still accepted.
func (k *Keyring) Verify(ctx context.Context, secret, remote string) (Principal, error) {
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], k.root[:]) == 1 && k.cfg.Root != "" {
		return Principal{ID: Root, Name: "the token of the data directory", Org: budget.DefaultOrg, Scopes: All()}, nil
	}
	hash, addr, now := hex.EncodeToString(sum[:]), addressOf(remote), time.Now()
	if wait := k.failures.Wait(addr, now); wait > 0 && !k.wasValid(hash) {
		return Principal{}, &Wait{For: wait}
	}
	t, err := k.find(ctx, secret, hash)
	if errors.Is(err, Unknown) {
		k.failures.Count(addr, now)
	}
	if err != nil {
		return Principal{}, err
	}
	k.recordUse(ctx, t)
	p := Principal{ID: string(t.ID), Name: t.Name, Org: t.Org, User: t.User, Agent: t.Agent}
	for _, s := range t.Scopes {
		p.Scopes = append(p.Scopes, Scope(s))
	}
	return p, nil
}

// Guess returns the id of the principal that the bearer of a secret is or was, without reading the
// store. That is enough to refuse a request, but not to admit it. ok is false if only Verify can
// tell.
func (k *Keyring) Guess(secret string) (id string, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], k.root[:]) == 1 && k.cfg.Root != "" {
		return Root, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.seen[hex.EncodeToString(sum[:])]
	return last.id, ok
}

// secretLength is the length of every secret. Other strings are not looked up.
const secretLength = len("perdure_") + 43

// find looks a secret up. Unknown: it is not valid.
func (k *Keyring) find(ctx context.Context, secret, hash string) (t store.AccessToken, err error) {
	if k.cfg.Store == nil || len(secret) != secretLength || !strings.HasPrefix(secret, "perdure_") {
		return t, Unknown
	}
	err = k.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if t, err = r.Tokens().ByHash(hash); err == nil && !isValid(t, r.Now()) {
			err = Unknown
		}
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		err = Unknown
	}
	return t, err
}

// isValid reports whether a token is valid at a given time.
func isValid(t store.AccessToken, now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// wasValid reports whether a secret with this hash was valid before.
func (k *Keyring) wasValid(hash string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.seen[hash]
	return seen
}

// recordUse records the use of a token, at most once a minute. A failure is ignored, because it
// must not keep the bearer out.
func (k *Keyring) recordUse(ctx context.Context, t store.AccessToken) {
	now := time.Now()
	k.mu.Lock()
	last, seen := k.seen[t.Hash]
	due := now.Sub(last.written) >= usedEvery
	if due {
		if !seen && len(k.seen) >= seenTokens {
			clear(k.seen)
		}
		k.seen[t.Hash] = use{string(t.ID), now}
	}
	k.mu.Unlock()
	if !due || now.Sub(t.UsedAt) < usedEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usedTime)
	defer cancel()
	err := k.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		stored, err := tx.Tokens().Get(t.ID)
		if err != nil || tx.Now().Sub(stored.UsedAt) < usedEvery {
			return err
		}
		stored.UsedAt = tx.Now()
		return tx.Tokens().Put(stored)
	})
	if err != nil {
		k.cfg.Log.Debug("token use not recorded", "token", t.ID, "error", err)
	}
}

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

// Unknown is the error of a secret that lets nobody in: it never did, or does no longer. Which of them is not told.
const Unknown refusal = "the token is not one of this server, or it has expired or was revoked"

// Ended is why the context of a request ended: its token was revoked, or has expired.
const Ended refusal = "the token has expired or was revoked meanwhile"

// refusal is the type of Unknown and Ended.
type refusal string

// Error is its text.
func (r refusal) Error() string { return string(r) }

// Wait is the error of an address from which too many wrong tokens came.
type Wait struct{ For time.Duration }

// Error says how long.
func (w *Wait) Error() string {
	return fmt.Sprintf("too many wrong tokens came from this address; try again in %s", w.For.Round(time.Second))
}

// Config is what a Keyring is made of.
type Config struct {
	Store store.Store // of tokens; nil: there is only the root's
	Root  string      // the secret of the data directory; empty: nobody is root
	Log   *slog.Logger

	Failures int           // wrong tokens from one address at once; 0: 30
	Forgive  time.Duration // after which one more is allowed; 0: 1 s
	Look     time.Duration // how often it is looked whether a token in use still lives; 0: 300 ms
}

// usedEvery is how often the use of a token is written at most, and seenTokens how many are remembered for it.
const (
	usedEvery  = time.Minute
	usedTime   = 2 * time.Second // that the writing may take
	seenTokens = 4096
)

// Keyring knows who the bearer of a secret is. A secret is looked up by its hash, so how long that takes says nothing about
// it. It is safe for concurrent use.
type Keyring struct {
	cfg      Config
	root     [sha256.Size]byte
	failures Pace[netip.Addr] // wrong tokens

	mu      sync.Mutex
	seen    map[string]use                      // guarded by mu; by hash
	watched map[perdure.TokenID]map[*guest]bool // guarded by mu; who is let in now
	end     context.CancelFunc                  // guarded by mu; of who looks after them; nil: nobody does
}

// use is a token that was good.
type use struct {
	id      string    // of the token
	written time.Time // when its use was written last
}

// NewKeyring returns a keyring.
func NewKeyring(cfg Config) *Keyring {
	if cfg.Failures <= 0 {
		cfg.Failures = 30
	}
	if cfg.Forgive <= 0 {
		cfg.Forgive = time.Second
	}
	if cfg.Look <= 0 {
		cfg.Look = 300 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keyring{
		cfg: cfg, root: sha256.Sum256([]byte(cfg.Root)), failures: Pace[netip.Addr]{Burst: cfg.Failures, Every: cfg.Forgive},
		seen: map[string]use{}, watched: map[perdure.TokenID]map[*guest]bool{},
	}
}

// Verify returns who the bearer of a secret is. remote is the address that they ask from, as net/http has it. Unknown: nobody.
// *Wait: too many wrong ones came from there; a token that was good before still is.
func (k *Keyring) Verify(ctx context.Context, secret, remote string) (Principal, error) {
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], k.root[:]) == 1 && k.cfg.Root != "" {
		return Principal{ID: Root, Name: "the token of the data directory", Org: budget.DefaultOrg, Scopes: All()}, nil
	}
	hash, addr, now := hex.EncodeToString(sum[:]), addressOf(remote), time.Now()
	if wait := k.failures.Wait(addr, now); wait > 0 && !k.knows(hash) {
		return Principal{}, &Wait{For: wait}
	}
	t, err := k.find(ctx, secret, hash)
	if errors.Is(err, Unknown) {
		k.failures.Count(addr, now)
	}
	if err != nil {
		return Principal{}, err
	}
	k.note(ctx, t)
	p := Principal{ID: string(t.ID), Name: t.Name, Org: t.Org, User: t.User, Agent: t.Agent}
	for _, s := range t.Scopes {
		p.Scopes = append(p.Scopes, Scope(s))
	}
	return p, nil
}

// Guess returns the id of the principal that the bearer of a secret is or was, without asking the store: enough to refuse them, and
// not to let them in. Not ok: only Verify can tell.
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

// secretLength is that of a secret: what has another one is not looked up.
const secretLength = len("perdure_") + 43

// find looks a secret up. Unknown: it lets nobody in.
func (k *Keyring) find(ctx context.Context, secret, hash string) (t store.AccessToken, err error) {
	if k.cfg.Store == nil || len(secret) != secretLength || !strings.HasPrefix(secret, "perdure_") {
		return t, Unknown
	}
	err = k.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if t, err = r.TokenOf(hash); err == nil && !lives(t, r.Now()) {
			err = Unknown
		}
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		err = Unknown
	}
	return t, err
}

// lives reports whether a token lets its bearer in at a moment.
func lives(t store.AccessToken, now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// knows reports whether a secret of this hash was good before.
func (k *Keyring) knows(hash string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.seen[hash]
	return seen
}

// note writes that a token is used, once a minute at most. Where it cannot be written it is left: nobody is turned away for it.
func (k *Keyring) note(ctx context.Context, t store.AccessToken) {
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
		stored, err := tx.AccessToken(t.ID)
		if err != nil || tx.Now().Sub(stored.UsedAt) < usedEvery {
			return err
		}
		stored.UsedAt = tx.Now()
		return tx.PutAccessToken(stored)
	})
	if err != nil {
		k.cfg.Log.Debug("the use of a token was not written", "token", t.ID, "error", err)
	}
}

package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// tokenPrefix marks secrets of tokens, so that people and scanners recognize them.
const tokenPrefix = "perdure_"

// orgName restricts the names of orgs, which are part of keys and columns.
var orgName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`) })

// rowOwner returns the owner that the engine works for, as rows store it: the default org is empty.
func rowOwner(ctx context.Context) engine.Owner {
	o, _ := engine.OwnerFromContext(ctx)
	if o.Org == budget.DefaultOrg {
		o.Org = ""
	}
	return o
}

// ownerOf returns the owner of a session.
func ownerOf(row store.Session) engine.Owner {
	return engine.Owner{Org: cmp.Or(row.Org, budget.DefaultOrg), User: row.User}
}

// listFor returns the filter for the sessions that a caller may list.
func listFor(ctx context.Context, limit int) store.SessionFilter {
	_, one := engine.OwnerFromContext(ctx)
	return store.SessionFilter{Org: rowOwner(ctx).Org, OneOrg: one, Limit: limit}
}

// Create creates a token. Only the hash of its secret is stored.
func (e hostTokens) Create(ctx context.Context, o engine.TokenRequest) (made engine.IssuedToken, err error) {
	o.ID = cmp.Or(o.ID, core.NewID[perdure.TokenID]())
	o.By = cmp.Or(o.By, "user")
	o.Name = strings.TrimSpace(o.Name)
	if o.Org == "" {
		of, _ := engine.OwnerFromContext(ctx)
		o.Org = of.Org
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{engine.ScopeRead, engine.ScopeWrite}
	}
	if err := checkTokenOrder(o); err != nil {
		return made, fmt.Errorf("create token: %w", err)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	secret := tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	t := store.AccessToken{
		ID: o.ID, Hash: hex.EncodeToString(sum[:]), Name: o.Name, Org: o.Org, User: o.User, Agent: o.Agent,
		Scopes: slices.Compact(slices.Sorted(slices.Values(o.Scopes))),
		By:     o.By, ExpiresAt: o.Expires,
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		t.CreatedAt = tx.Now()
		if !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(t.CreatedAt) {
			return fmt.Errorf("%w expiry %s: it is in the past",
				perdure.Invalid, t.ExpiresAt.UTC().Format(time.RFC3339))
		}
		if _, err := tx.Tokens().Get(t.ID); err == nil {
			return fmt.Errorf("%w: %s already exists, and its secret cannot be shown again; "+
				"revoke it and create another token", perdure.Conflict, t.ID)
		}
		made.Token, made.Secret = tokenAt(t.Micro(), tx.Now()), secret
		err := tx.Tokens().Put(t)
		if err == nil {
			err = tx.Audit().Add(tokenEntry(t, "token.created", t.By))
		}
		return err
	})
	if err != nil {
		return engine.IssuedToken{}, fmt.Errorf("create token: %w", err)
	}
	return made, nil
}

// checkTokenOrder returns Invalid if an order is not valid.
func checkTokenOrder(o engine.TokenRequest) error {
	plain := func(text string) bool {
		return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) &&
			len(text) <= store.MaxTokenTextBytes
	}
	switch _, err := perdure.ParseID[perdure.TokenID](string(o.ID)); {
	case err != nil:
		return err
	case o.Name == "" || !plain(o.Name):
		return fmt.Errorf("%w name: it must have 1 to %d bytes of plain text", perdure.Invalid, store.MaxTokenTextBytes)
	case !orgName().MatchString(o.Org):
		return fmt.Errorf("%w org %.40q: it must have 1 to 63 characters of a-z, 0-9, dot, dash and underscore",
			perdure.Invalid, o.Org)
	case !plain(o.User):
		return fmt.Errorf("%w user: it must have at most %d bytes of plain text", perdure.Invalid, store.MaxTokenTextBytes)
	case !plain(o.By):
		return fmt.Errorf("%w creator: it must have at most %d bytes of plain text",
			perdure.Invalid, store.MaxTokenTextBytes)
	}
	for _, s := range o.Scopes {
		known := []string{engine.ScopeRead, engine.ScopeWrite, engine.ScopeApprove, engine.ScopeAdmin}
		if !slices.Contains(known, s) {
			return fmt.Errorf("%w scope %.40q: it must be read, write, approve or admin", perdure.Invalid, s)
		}
		if o.Agent && (s == engine.ScopeApprove || s == engine.ScopeAdmin) {
			return fmt.Errorf("%w scope %s: a token for an agent can have neither approve nor admin",
				perdure.Invalid, s)
		}
	}
	return nil
}

// List lists the tokens of the caller's org, or all tokens.
func (e hostTokens) List(ctx context.Context) (list []engine.Token, err error) {
	org := ""
	if of, one := engine.OwnerFromContext(ctx); one {
		org = of.Org
	}
	err = e.view(ctx, func(r store.Reader) error {
		list = nil
		found, err := r.Tokens().List(org)
		for _, t := range found {
			list = append(list, tokenAt(t, r.Now()))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return list, nil
}

func (e hostTokens) Revoke(ctx context.Context, id perdure.TokenID, by string) (shown engine.Token, err error) {
	err = e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // also on a full disk
		t, err := tx.Tokens().Get(id)
		if err != nil {
			return err
		}
		if of, one := engine.OwnerFromContext(ctx); one && of.Org != t.Org {
			return fmt.Errorf("token %s: %w", id, perdure.NotFound)
		}
		if t.RevokedAt.IsZero() {
			t.RevokedAt, t.RevokedBy = tx.Now(), cmp.Or(by, "user")
			err := tx.Tokens().Put(t)
			if err == nil {
				err = tx.Audit().Add(tokenEntry(t, "token.revoked", t.RevokedBy))
			}
			if err != nil {
				return err
			}
		}
		shown = tokenAt(t.Micro(), tx.Now())
		return nil
	})
	if err != nil {
		return engine.Token{}, fmt.Errorf("revoke: %w", err)
	}
	return shown, nil
}

// tokenEntry returns the audit entry for a token. It never contains the hash.
func tokenEntry(t store.AccessToken, action, by string) store.AuditEntry {
	return store.AuditEntry{Org: t.Org, Actor: by, Action: action, Subject: string(t.ID), Detail: map[string]string{
		"name": t.Name, "user": t.User, "scopes": strings.Join(t.Scopes, " "), "agent": strconv.FormatBool(t.Agent),
	}}
}

// tokenAt returns a token without its hash, with its state at a given time.
func tokenAt(t store.AccessToken, now time.Time) engine.Token {
	shown := engine.Token{
		ID: t.ID, Name: t.Name, Org: t.Org, User: t.User, Agent: t.Agent, Scopes: t.Scopes, State: engine.TokenLive,
		By: t.By, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy,
		UsedAt: t.UsedAt,
	}
	switch {
	case !t.RevokedAt.IsZero():
		shown.State = engine.TokenRevoked
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		shown.State = engine.TokenExpired
	}
	return shown
}

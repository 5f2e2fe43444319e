package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

// flowUser is the user in the rows of authorizations that have begun and not ended. Such a row is
// sealed, and named by the digest of its state.
const flowUser = reservedPrefix + "flow"

const (
	flowTime     = 10 * time.Minute // in which an authorization has to end
	maxUserFlows = 10               // of a user, that have begun and not ended; the oldest gives way
	maxOrgFlows  = 1_000            // of an org
)

// flow is an authorization that has begun. It is sealed in its row.
type flow struct {
	Org      string `json:"org"`
	User     string `json:"user"`
	Provider string `json:"provider"`
	Verifier string `json:"verifier"` // of PKCE
	Redirect string `json:"redirect"`
	By       string `json:"by"` // the actor who began it
}

// flowOwner is the user of such an authorization, in the metadata of its row. Nothing of one user
// or org limits the authorizations of others.
type flowOwner struct {
	Org  string `json:"flow_org"`
	User string `json:"flow_user"`
}

// flowOwnerOf reads the metadata of such a row.
func flowOwnerOf(metadata []byte) (o flowOwner) {
	if perdure.DecodeKnownJSON(metadata, &o) != nil {
		return flowOwner{}
	}
	return o
}

// Begun is an authorization as its user gets it.
type Begun struct {
	URL       string
	State     string
	ExpiresAt time.Time
}

// Request begins an authorization.
type Request struct {
	Key         store.ConnectionKey
	RedirectURL string // an address of this machine; empty: the configured one
}

// provider returns the configuration of a provider. NotFound: there is none. Unavailable: the
// configuration cannot be used; the log says why, because the reason is not for every caller.
func (c *Connections) provider(name string) (Provider, Providers, error) {
	var all Providers
	if c.cfg.Providers != nil {
		var err error
		if all, err = c.cfg.Providers(); err != nil {
			c.cfg.Log.Warn("OAuth providers not read", "error", err)
			return Provider{}, all, fmt.Errorf("%w: the configuration of OAuth providers cannot be used: the log says why; let an administrator correct oauth.json", perdure.Unavailable)
		}
	}
	one, ok := all.All[name]
	if !ok {
		return one, all, fmt.Errorf("authorization at %.40q: %w: it is not in the configuration of OAuth providers", name, perdure.NotFound)
	}
	return one, all, nil
}

// Begin begins an authorization.
func (c *Connections) Begin(ctx context.Context, r Request) (Begun, error) {
	if err := checkKey(r.Key); err != nil {
		return Begun{}, err
	}
	provider, all, err := c.provider(r.Key.Provider)
	if err != nil {
		return Begun{}, err
	}
	f := flow{Org: r.Key.Org, User: r.Key.User, Provider: r.Key.Provider, Verifier: oauth2.GenerateVerifier(),
		By: store.ActorOf(ctx)}
	if f.Redirect, err = redirectURL(r.RedirectURL, all); err != nil {
		return Begun{}, err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	state := base64.RawURLEncoding.EncodeToString(random[:])
	key := flowKey(state)
	by := flowOwner{f.Org, f.User}
	text, err := json.Marshal(f)
	owner, failed := json.Marshal(by)
	if err = errors.Join(err, failed); err != nil {
		return Begun{}, err
	}
	sealed, err := c.cfg.Ports.SealToken(key, string(text))
	if err != nil {
		return Begun{}, err
	}
	made := Begun{URL: provider.authorizeURL(f, state), State: state}
	err = c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		if err := makeRoom(tx, by); err != nil {
			return err
		}
		made.ExpiresAt = tx.Now().Add(flowTime).UTC().Truncate(time.Second)
		_, err := tx.Directory().Connections().Put(store.Connection{User: key.User, Provider: key.Provider, Sealed: sealed,
			Metadata: Details{ExpiresAt: made.ExpiresAt}.into(owner)})
		return err
	})
	return made, err
}

// redirectURL returns where the browser goes afterwards. A caller may name only an address of this
// machine, so that no code goes to somebody else.
func redirectURL(wanted string, all Providers) (string, error) {
	if wanted == "" {
		if all.RedirectURL == "" {
			return "", fmt.Errorf("%w authorization: no redirect_url is configured; set it to the address of this server, such as https://HOST/v1/connections/callback", perdure.Invalid)
		}
		return all.RedirectURL, nil
	}
	u, err := url.Parse(wanted)
	if wanted != all.RedirectURL && (err != nil || u.Scheme != "http" || !isLoopback(u) || u.Hostname() == "localhost" || u.User != nil || u.Fragment != "") {
		return "", fmt.Errorf("%w redirect_url: use the configured one, or an address of this machine such as http://127.0.0.1:PORT/callback", perdure.Invalid)
	}
	return wanted, nil
}

// makeRoom removes authorizations that have not ended in time, and the oldest ones of a user who
// began too many. Limit: too many of other users of the org are left.
func makeRoom(tx store.Tx, user flowOwner) error {
	all, err := tx.Directory().Connections().List()
	if err != nil {
		return err
	}
	var over, own []store.Connection
	others := 0
	for _, row := range all {
		if row.User != flowUser {
			continue
		}
		switch owner := flowOwnerOf(row.Metadata); {
		case !tx.Now().Before(detailsOf(row.Metadata).ExpiresAt):
			over = append(over, row)
		case owner == user:
			own = append(own, row)
		case owner.Org == user.Org:
			others++
		}
	}
	slices.SortFunc(own, func(a, b store.Connection) int { return a.CreatedAt.Compare(b.CreatedAt) })
	over = append(over, own[:max(0, len(own)-maxUserFlows+1)]...)
	if others >= maxOrgFlows {
		return fmt.Errorf("%w: %d authorizations of this org have begun and not ended; finish one, or begin again in %v", perdure.Limit, others, flowTime)
	}
	for _, row := range over {
		if _, err := tx.Directory().Connections().Remove(row.Key()); err != nil {
			return err
		}
	}
	return nil
}

// flowKey is the key of the row of an authorization. The row does not contain the state.
func flowKey(state string) store.ConnectionKey {
	sum := sha256.Sum256([]byte(state))
	return store.ConnectionKey{User: flowUser, Provider: hex.EncodeToString(sum[:])}
}

// Answer is what the provider answered.
type Answer struct {
	State, Code, Error string
	// Mine reports whether an authorization, with the actor who began it, belongs to the principal
	// that brings the answer; nil: the state alone decides.
	Mine func(of store.ConnectionKey, by string) bool
	// Repeated says that an earlier attempt of the same request may have ended the authorization.
	Repeated bool
}

// Finish ends an authorization and stores the connection. The state is used up before the provider
// is asked, so that no code is sent twice.
func (c *Connections) Finish(ctx context.Context, a Answer) (Account, error) {
	f, err := c.take(ctx, a)
	if a.Repeated && errors.Is(err, perdure.NotFound) {
		return c.finished(ctx, a, err)
	}
	if err != nil {
		return Account{}, err
	}
	key := store.ConnectionKey{Org: f.Org, User: f.User, Provider: f.Provider}
	switch {
	case a.Error != "":
		return Account{}, fmt.Errorf("authorization at %.40q: %w: the provider answered %s", f.Provider, perdure.Denied, plainCode(a.Error))
	case a.Code == "":
		return Account{}, fmt.Errorf("%w answer: it has neither a code nor an error; begin again", perdure.Invalid)
	}
	provider, _, err := c.provider(f.Provider)
	if err != nil {
		return Account{}, err
	}
	began := time.Now()
	token, err := provider.request(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return provider.client(f.Redirect).Exchange(ctx, a.Code, oauth2.VerifierOption(f.Verifier))
	})
	var no *refused
	if errors.As(err, &no) {
		return Account{}, fmt.Errorf("authorization at %.40q: %w: %w; begin again", f.Provider, perdure.Denied, err)
	}
	if err != nil {
		return Account{}, fmt.Errorf("authorization at %.40q: %w; begin again", f.Provider, err)
	}
	grant := sessionport.Grant{Access: token.AccessToken, Refresh: token.RefreshToken}
	sealed, err := c.cfg.Ports.SealGrant(key, grant)
	if err != nil {
		return Account{}, err
	}
	c.mask(key, grant.Access, grant.Refresh)
	now, err := c.Now(ctx)
	if err != nil {
		return Account{}, err
	}
	details := Details{Hosts: provider.Hosts, OAuth: true, Flow: flowKey(a.State).Provider, Scopes: scopesOf(token, provider.Scopes)}
	details.expire(token, now.Add(-time.Since(began)))
	ctx = store.Acting(context.WithoutCancel(ctx), f.By) // a browser brings the answer without a token
	return c.put(ctx, "connection.added", store.Connection{Org: key.Org, User: key.User, Provider: key.Provider,
		Sealed: sealed, Metadata: details.into(nil)})
}

// finished returns the connection that an authorization has made, for a user who may end it; else
// the error none.
func (c *Connections) finished(ctx context.Context, a Answer, none error) (made Account, err error) {
	flow := flowKey(a.State)
	err = c.cfg.Ports.Store.View(ctx, func(r store.Reader) error {
		all, err := r.Directory().Connections().List()
		at := slices.IndexFunc(all, func(row store.Connection) bool {
			return !isReserved(row.User) && detailsOf(row.Metadata).Flow == flow.Provider && (a.Mine == nil || a.Mine(row.Key(), flow.User))
		})
		if made = (Account{}); err == nil && at < 0 {
			return none
		}
		if err == nil {
			made = accountOf(all[at])
		}
		return err
	})
	return made, err
}

// take uses up the state of an authorization. NotFound: it is unknown, used, expired, or of
// somebody else.
func (c *Connections) take(ctx context.Context, a Answer) (f flow, err error) {
	unknown := fmt.Errorf("authorization: %w: its state is unknown, used, or expired; begin again", perdure.NotFound)
	key := flowKey(a.State)
	row, err := c.flowRow(ctx, key)
	if err != nil {
		return f, err
	}
	if row.Sealed == nil {
		return f, unknown
	}
	text, err := c.cfg.Ports.OpenToken(row)
	if err != nil {
		return f, err
	}
	if err := perdure.DecodeJSON([]byte(text), &f); err != nil {
		return f, unknown
	}
	if a.Mine != nil && !a.Mine(store.ConnectionKey{Org: f.Org, User: f.User, Provider: f.Provider}, f.By) {
		return f, unknown
	}
	err = c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		existed, err := tx.Directory().Connections().Remove(key)
		if err == nil && (!existed || !tx.Now().Before(detailsOf(row.Metadata).ExpiresAt)) {
			err = unknown
		}
		return err
	})
	return f, err
}

// flowRow reads the row of an authorization; the zero row: there is none.
func (c *Connections) flowRow(ctx context.Context, key store.ConnectionKey) (row store.Connection, err error) {
	err = c.cfg.Ports.Store.View(ctx, func(r store.Reader) error {
		found, exists, err := r.Directory().Connections().Get(key)
		if row = found; !exists {
			row = store.Connection{}
		}
		return err
	})
	return row, err
}

// Now returns the time of the store, which all processes that share it have in common.
func (c *Connections) Now(ctx context.Context) (now time.Time, err error) {
	err = c.cfg.Ports.Store.View(ctx, func(r store.Reader) error {
		now = r.Now()
		return nil
	})
	return now, err
}

// scopesOf returns the scopes that a provider granted: those that were requested, unless it says
// otherwise.
func scopesOf(token *oauth2.Token, requested []string) []string {
	if scope, ok := token.Extra("scope").(string); ok && scope != "" {
		return sortedScopes(scope)
	}
	return requested
}

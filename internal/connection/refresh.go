package connection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

const (
	// refreshLead is how long before its expiry a token is refreshed, if it lives at least twice as
	// long; others are refreshed after half of their life.
	refreshLead = time.Minute
	// claimTime is how long a process that began to refresh a token is waited for. It covers the
	// answer of the provider and the commit; a process that takes longer is dead.
	claimTime = answerTime + 10*time.Second
	// failurePause is how long a provider that gave no answer is not asked again for a connection,
	// so that the users of a token do not queue for one timeout after the other.
	failurePause = 5 * time.Second
	// lookInterval is how often the row is read while another process refreshes the token.
	lookInterval = 100 * time.Millisecond
	// commitAttempts limits how often the commit of a fetched token is tried again. A token that is
	// fetched and not stored may be lost with its refresh token.
	commitAttempts = 5
)

// expire sets when a token expires that was requested at a time.
func (d *Details) expire(token *oauth2.Token, requested time.Time) {
	d.ExpiresAt, d.RefreshAt, d.Refreshing, d.FailedAt, d.Expired = time.Time{}, time.Time{}, time.Time{}, time.Time{}, ""
	life := time.Duration(token.ExpiresIn) * time.Second
	if token.ExpiresIn == 0 && !token.Expiry.IsZero() { // the library computed it
		life = time.Until(token.Expiry)
	}
	if life <= 0 {
		return
	}
	d.ExpiresAt = requested.Add(life).UTC().Truncate(time.Millisecond)
	d.RefreshAt = d.ExpiresAt.Add(-min(refreshLead, life/2))
}

// notConnected returns the error for a connection that cannot be used until its user connects
// again.
func notConnected(provider, why string) error {
	return fmt.Errorf("connection to %.40q: %w: it has expired: %s; connect again", provider, perdure.NotFound, why)
}

// Token returns the token of a connection that can be used now. A token that is about to expire is
// refreshed first, by one process at a time. NotFound: the token has expired for good.
// Unavailable: the provider does not answer, or the token cannot be opened here.
func (c *Connections) Token(ctx context.Context, row store.Connection) (string, error) {
	for {
		d := detailsOf(row.Metadata)
		now, err := c.Now(ctx)
		if err != nil {
			return "", err
		}
		if account := accountOf(row); account.HasExpired(now) {
			why := d.Expired
			if why == "" {
				why = "it has expired"
			}
			return "", notConnected(row.Provider, why)
		}
		grant, err := c.cfg.Ports.OpenGrant(row)
		if err != nil {
			return "", err
		}
		valid := d.ExpiresAt.IsZero() || now.Before(d.ExpiresAt)
		switch {
		case !d.OAuth || d.RefreshAt.IsZero() || now.Before(d.RefreshAt):
			return grant.Access, nil
		case grant.Refresh == "" && valid:
			return grant.Access, nil
		case grant.Refresh == "":
			return "", c.expired(ctx, row, "there is no refresh token")
		case valid && (now.Sub(d.Refreshing) < claimTime || now.Sub(d.FailedAt) < failurePause):
			return grant.Access, nil // another process refreshes it, or just failed to
		case now.Sub(d.Refreshing) < claimTime:
			if row, err = c.awaitChange(ctx, row); err != nil {
				return "", err
			}
			continue
		case now.Sub(d.FailedAt) < failurePause:
			return "", fmt.Errorf("refresh the connection to %.40q: %w: the provider gave no usable answer a moment ago; try again in %v",
				row.Provider, perdure.Unavailable, failurePause)
		}
		claimed, err := c.claim(ctx, row)
		if errors.Is(err, perdure.Conflict) { // another process was faster
			if row, err = c.row(ctx, row.Key()); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		fresh, err := c.refresh(context.WithoutCancel(ctx), claimed, grant)
		if errors.Is(err, perdure.Unavailable) && valid {
			c.cfg.Log.Warn("connection not refreshed, will retry", "provider", row.Provider, "user", row.User, "error", err)
			return grant.Access, nil
		}
		return fresh, err
	}
}

// Check opens the token of a connection, and refreshes it if it is about to expire. The error is
// that of Token.
func (c *Connections) Check(ctx context.Context, key store.ConnectionKey) error {
	_, err := c.OpenToken(ctx, key)
	return err
}

// OpenToken is Token for the connection with a key. NotFound: also, there is none.
func (c *Connections) OpenToken(ctx context.Context, key store.ConnectionKey) (string, error) {
	row, err := c.row(ctx, key)
	if err != nil {
		return "", err
	}
	return c.Token(ctx, row)
}

// claim marks a row: this process refreshes its token. Conflict: another process changed the row.
func (c *Connections) claim(ctx context.Context, row store.Connection) (claimed store.Connection, err error) {
	err = c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		next, d := row, detailsOf(row.Metadata)
		d.Refreshing = tx.Now().UTC()
		next.Metadata = d.into(row.Metadata)
		claimed, err = tx.Directory().Connections().Put(next)
		return err
	})
	return claimed, err
}

// awaitChange waits until the process that refreshes a token has changed its row, or is dead.
func (c *Connections) awaitChange(ctx context.Context, row store.Connection) (store.Connection, error) {
	limit := time.NewTimer(claimTime)
	defer limit.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return row, context.Cause(ctx)
		case <-limit.C:
			return c.row(ctx, row.Key())
		case <-look.C:
		}
		now, err := c.row(ctx, row.Key())
		if err != nil || now.Version != row.Version {
			return now, err
		}
	}
}

// refresh fetches a new token for a row that this process has claimed, and stores it. It must not
// be interrupted: the refresh token may be used up by the first request.
func (c *Connections) refresh(ctx context.Context, row store.Connection, grant sessionport.Grant) (string, error) {
	provider, _, err := c.provider(row.Provider)
	if err != nil {
		err = fmt.Errorf("%w: refresh: %v", perdure.Unavailable, err) // what is missing is not the connection
		return "", errors.Join(err, c.release(ctx, row, false))
	}
	began, now := time.Now(), row.UpdatedAt
	token, err := provider.request(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return provider.client("").TokenSource(ctx, &oauth2.Token{RefreshToken: grant.Refresh}).Token()
	})
	var no *refused
	switch {
	case errors.As(err, &no):
		return "", c.expired(ctx, row, err.Error())
	case err != nil:
		err = fmt.Errorf("refresh the connection to %.40q: %w", row.Provider, err)
		return "", errors.Join(err, c.release(ctx, row, true))
	}
	c.mask(row.Key(), token.AccessToken, token.RefreshToken)
	sealed, err := c.cfg.Ports.SealGrant(row.Key(), sessionport.Grant{Access: token.AccessToken, Refresh: token.RefreshToken})
	if err != nil {
		return "", err
	}
	d := detailsOf(row.Metadata)
	d.expire(token, now)
	d.Scopes = scopesOf(token, d.Scopes)
	next := row
	next.Sealed, next.Metadata = sealed, d.into(row.Metadata)
	c.cfg.Log.Debug("connection refreshed", "provider", row.Provider, "user", row.User, "took", time.Since(began).String())
	for attempt := 1; ; attempt++ {
		err = c.change(ctx, next, "")
		switch {
		case err == nil, errors.Is(err, perdure.Conflict) && attempt == 1: // the user connected again meanwhile
			return token.AccessToken, nil
		case errors.Is(err, perdure.Conflict): // an earlier attempt was stored, and its answer lost
			return token.AccessToken, nil
		case attempt == commitAttempts:
			return "", fmt.Errorf("store the refreshed connection to %.40q: %w", row.Provider, err)
		}
		pause := time.NewTimer(lookInterval << attempt)
		<-pause.C
	}
}

// release removes the mark of a row whose token could not be refreshed now. failed says that the
// provider was asked.
func (c *Connections) release(ctx context.Context, row store.Connection, failed bool) error {
	err := c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		next, d := row, detailsOf(row.Metadata)
		if d.Refreshing = (time.Time{}); failed {
			d.FailedAt = tx.Now().UTC()
		}
		next.Metadata = d.into(row.Metadata)
		_, err := tx.Directory().Connections().Put(next)
		return err
	})
	if errors.Is(err, perdure.Conflict) {
		return nil
	}
	return err
}

// expired marks a row whose token can no longer be used, and returns the error of its users.
func (c *Connections) expired(ctx context.Context, row store.Connection, why string) error {
	d := detailsOf(row.Metadata)
	d.Refreshing, d.FailedAt, d.Expired = time.Time{}, time.Time{}, why
	next := row
	next.Metadata = d.into(row.Metadata)
	err := c.change(ctx, next, "connection.expired")
	if err != nil && !errors.Is(err, perdure.Conflict) {
		return err
	}
	c.cfg.Log.Warn("connection expired: its user has to connect again", "provider", row.Provider, "user", row.User, "why", why)
	return notConnected(row.Provider, why)
}

// change writes a row that this process has read. Conflict: it has changed since. action is
// recorded in the audit log, if there is one.
func (c *Connections) change(ctx context.Context, row store.Connection, action string) error {
	return c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Directory().Connections().Put(row); err != nil || action == "" {
			return err
		}
		return addAudit(store.Acting(ctx, "runtime"), tx, row.Key(), action)
	})
}

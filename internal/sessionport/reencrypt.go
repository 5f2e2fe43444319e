package sessionport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
)

const (
	resealPage = 100 // secrets that are sealed again in one commit
	maxFailed  = 20  // that an error names
)

// Reencrypt seals every secret of a session under the keyring's current key that is sealed under another one (SE2), page by
// page, and returns how many; [ResealDirectory] does the same for keys and tokens. progress hears that number after each page; nil: nobody does.
//
// It may be stopped at any moment, and begun again: what is done stays done, and what is not opens as before. It may run
// beside writers, whose secrets it never overwrites. What does not open is left as it is, and the error names it when all
// else is done; errors.Is tells secret.UnknownKey, secret.Tampered and secret.Corrupt.
func Reencrypt(ctx context.Context, cfg Config, progress func(done int)) (n int, err error) {
	current, err := cfg.Keys.Current()
	if err != nil {
		return 0, fmt.Errorf("reencrypt: %w", err)
	}
	pass := resealing{cfg: cfg, progress: progress, filter: store.SecretFilter{Other: current, Limit: resealPage}}
	for {
		before := pass.done
		if err := pass.run(ctx); err != nil {
			return pass.done, fmt.Errorf("reencrypt: %w", err)
		}
		if pass.done == before { // nobody wrote under an old key meanwhile
			break
		}
		n = pass.done
	}
	if len(pass.failed) > 0 {
		return n, fmt.Errorf("reencrypt: %d secrets are left as they are: %w", pass.left, errors.Join(pass.failed...))
	}
	return n, nil
}

// resealing is the work of Reencrypt.
type resealing struct {
	cfg      Config
	filter   store.SecretFilter
	progress func(done int)
	done     int
	left     int     // of this pass, what does not open
	failed   []error // why, of the first ones
}

// run goes once over all.
func (p *resealing) run(ctx context.Context) error {
	p.filter.After, p.left, p.failed = store.SecretKey{}, 0, nil
	for {
		var page []store.Secret
		var orgs map[perdure.SessionID]string
		err := p.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			if page, err = r.Secrets(p.filter); err == nil {
				orgs, err = orgsOf(r, page)
			}
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		last := page[len(page)-1]
		p.filter.After = store.SecretKey{Session: last.Session, Name: last.Name}
		if err := p.reseal(ctx, page, orgs); err != nil {
			return err
		}
		if p.progress != nil {
			p.progress(p.done)
		}
	}
}

// orgsOf returns the orgs of the sessions that have the secrets of a page.
func orgsOf(r store.Reader, page []store.Secret) (map[perdure.SessionID]string, error) {
	orgs := map[perdure.SessionID]string{}
	for _, s := range page {
		if _, known := orgs[s.Session]; known {
			continue
		}
		row, err := r.Session(s.Session)
		if err != nil {
			return nil, err
		}
		orgs[s.Session] = row.Org
	}
	return orgs, nil
}

// reseal seals a page again, in one commit.
func (p *resealing) reseal(ctx context.Context, page []store.Secret, orgs map[perdure.SessionID]string) error {
	type change struct {
		next store.Secret
		was  string
	}
	var changes []change
	for _, row := range page {
		next, err := p.sealed(orgs[row.Session], row)
		if err != nil {
			if p.left++; len(p.failed) < maxFailed {
				p.failed = append(p.failed, fmt.Errorf("session %s: %w", row.Session, err))
			}
			continue
		}
		changes = append(changes, change{next, row.KeyID})
	}
	if len(changes) == 0 {
		return nil
	}
	written := 0
	err := p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		written = 0
		for _, c := range changes {
			ok, err := tx.ResealSecret(c.next, c.was)
			if err != nil {
				return err
			}
			if ok {
				written++
			}
		}
		return resealed(ctx, tx, p.filter.Other, written)
	})
	if err == nil {
		p.done += written
	}
	return err
}

// resealed adds to the audit log that so many rows are sealed under a key now, which they were not; 0: nothing.
func resealed(ctx context.Context, tx store.Tx, key string, n int) error {
	if n == 0 {
		return nil
	}
	return tx.AddAudit(store.AuditEntry{Actor: store.ActorOf(ctx), Action: "key.resealed", Subject: key, Detail: map[string]string{"rows": strconv.Itoa(n)}})
}

// NoteRotation adds to the audit log that a keyring has a new current key.
func NoteRotation(ctx context.Context, st store.Store, key string) error {
	return st.InTx(ctx, func(tx store.Tx) error {
		return tx.AddAudit(store.AuditEntry{Actor: store.ActorOf(ctx), Action: "key.rotated", Subject: key})
	})
}

// sealed is a row under the current key, bound to its org.
func (p *resealing) sealed(org string, row store.Secret) (store.Secret, error) {
	plain, err := p.cfg.openSecret(org, row)
	if err != nil {
		return row, err
	}
	defer clear(plain)
	if row.Sealed, err = p.cfg.Keys.Seal(place(org, row), plain); err != nil {
		return row, err
	}
	row.KeyID, err = secret.KeyID(row.Sealed)
	return row, err
}

// KeysInUse returns the keys under which something is sealed, for [secret.Keyring.Prune]: secrets of sessions, keys of
// providers and tokens of connections. What is damaged names no key, and none would open it.
func KeysInUse(ctx context.Context, cfg Config) ([]string, error) {
	used, err := cfg.keysOfSecrets(ctx)
	if err != nil {
		return nil, fmt.Errorf("keys in use: %w", err)
	}
	rows, err := cfg.sealedRows(ctx)
	if err != nil {
		return nil, fmt.Errorf("keys in use: %w", err)
	}
	for _, row := range rows {
		if id, err := secret.KeyID(row.sealed); err == nil && !slices.Contains(used, id) {
			used = append(used, id)
		}
	}
	return used, nil
}

// keysOfSecrets returns the keys under which secrets of sessions are sealed.
func (c Config) keysOfSecrets(ctx context.Context) (used []string, err error) {
	filter := store.SecretFilter{Limit: 1000, Bare: true}
	for {
		var page []store.Secret
		err := c.Store.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Secrets(filter)
			return err
		})
		if err != nil || len(page) == 0 {
			return used, err
		}
		for _, row := range page {
			if !slices.Contains(used, row.KeyID) {
				used = append(used, row.KeyID)
			}
		}
		last := page[len(page)-1]
		filter.After = store.SecretKey{Session: last.Session, Name: last.Name}
	}
}

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
	reencryptPageSize = 100 // secrets that one commit re-encrypts
	maxReportedErrors = 20  // how many of them an error names
)

// Reencrypt seals every session secret that is sealed under another key again under the keyring's
// current key, page by page, and returns how many it sealed. [ReencryptDirectory] does the same for
// keys and tokens. progress, if not nil, is called with that number after each page.
//
// It may be interrupted at any moment and run again: finished pages stay finished, and the other
// secrets open as before. It is safe to run beside writers, and never overwrites their secrets. A
// secret that cannot be opened is skipped and named in the error, which is returned after all
// others are done. Test it with errors.Is for secret.UnknownKey, secret.Tampered and
// secret.Corrupt.
func Reencrypt(ctx context.Context, cfg Config, progress func(done int)) (n int, err error) {
	current, err := cfg.Keys.Current()
	if err != nil {
		return 0, fmt.Errorf("reencrypt: %w", err)
	}
	pass := reencryption{cfg: cfg, progress: progress, filter: store.SecretFilter{OtherThanKey: current, Limit: reencryptPageSize}}
	for {
		before := pass.done
		if err := pass.onePass(ctx); err != nil {
			return pass.done, fmt.Errorf("reencrypt: %w", err)
		}
		if pass.done == before { // no writer used an old key meanwhile
			break
		}
		n = pass.done
	}
	if len(pass.errs) > 0 {
		return n, fmt.Errorf("reencrypt: %d secrets could not be re-encrypted: %w",
			pass.failures, errors.Join(pass.errs...))
	}
	return n, nil
}

// reencryption is one run of Reencrypt.
type reencryption struct {
	cfg      Config
	filter   store.SecretFilter
	progress func(done int)
	done     int
	failures int     // secrets of this pass that cannot be opened
	errs     []error // the errors of the first maxReportedErrors of them
}

// onePass makes one pass over all secrets under other keys.
func (p *reencryption) onePass(ctx context.Context) error {
	p.filter.After, p.failures, p.errs = store.SecretKey{}, 0, nil
	for {
		var page []store.Secret
		var orgs map[perdure.SessionID]string
		err := p.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			if page, err = r.Secrets().List(p.filter); err == nil {
				orgs, err = orgsOf(r, page)
			}
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		last := page[len(page)-1]
		p.filter.After = store.SecretKey{Session: last.Session, Name: last.Name}
		if err := p.reencryptPage(ctx, page, orgs); err != nil {
			return err
		}
		if p.progress != nil {
			p.progress(p.done)
		}
	}
}

// orgsOf returns the orgs of the sessions whose secrets are on a page.
func orgsOf(r store.Reader, page []store.Secret) (map[perdure.SessionID]string, error) {
	orgs := map[perdure.SessionID]string{}
	for _, s := range page {
		if _, known := orgs[s.Session]; known {
			continue
		}
		row, err := r.Sessions().Get(s.Session)
		if err != nil {
			return nil, err
		}
		orgs[s.Session] = row.Org
	}
	return orgs, nil
}

// reseal re-encrypts one page in one commit.
func (p *reencryption) reencryptPage(ctx context.Context, page []store.Secret, orgs map[perdure.SessionID]string) error {
	type change struct {
		next store.Secret
		was  string
	}
	var changes []change
	for _, row := range page {
		next, err := p.reencryptRow(orgs[row.Session], row)
		if err != nil {
			if p.failures++; len(p.errs) < maxReportedErrors {
				p.errs = append(p.errs, fmt.Errorf("session %s: %w", row.Session, err))
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
			ok, err := tx.Secrets().Reseal(c.next, c.was)
			if err != nil {
				return err
			}
			if ok {
				written++
			}
		}
		return auditReencryption(ctx, tx, p.filter.OtherThanKey, written)
	})
	if err == nil {
		p.done += written
	}
	return err
}

// auditReencryption records in the audit log that n rows were re-encrypted under a key. It writes
// nothing where n is 0.
func auditReencryption(ctx context.Context, tx store.Tx, key string, n int) error {
	if n == 0 {
		return nil
	}
	return tx.Audit().Add(store.AuditEntry{
		Actor: store.ActorOf(ctx), Action: "key.resealed", Subject: key,
		Detail: map[string]string{"rows": strconv.Itoa(n)},
	})
}

// AuditRotation records in the audit log that a keyring has a new current key.
func AuditRotation(ctx context.Context, st store.Store, key string) error {
	return st.InTx(ctx, func(tx store.Tx) error {
		return tx.Audit().Add(store.AuditEntry{Actor: store.ActorOf(ctx), Action: "key.rotated", Subject: key})
	})
}

// reencryptRow returns a row that is sealed under the current key and bound to its org.
func (p *reencryption) reencryptRow(org string, row store.Secret) (store.Secret, error) {
	plain, err := p.cfg.openSecret(org, row)
	if err != nil {
		return row, err
	}
	defer clear(plain)
	if row.Sealed, err = p.cfg.Keys.Seal(secretContext(org, row), plain); err != nil {
		return row, err
	}
	row.KeyID, err = secret.KeyID(row.Sealed)
	return row, err
}

// KeysInUse returns the keys under which something is sealed, for [secret.Keyring.Prune]: session
// secrets, provider keys, connection tokens and webhook secrets. A damaged value names no key and
// is left out: no key would open it.
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

// keysOfSecrets returns the keys under which session secrets are sealed.
func (c Config) keysOfSecrets(ctx context.Context) (used []string, err error) {
	filter := store.SecretFilter{Limit: 1000, WithoutValue: true}
	for {
		page, err := store.Read(ctx, c.Store, func(r store.Reader) ([]store.Secret, error) {
			return r.Secrets().List(filter)
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

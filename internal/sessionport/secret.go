package sessionport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Limits of a secret.
const (
	maxPlainBytes = 64 << 10
	maxHosts      = 50
	maxHostBytes  = 253
)

// reservedPrefix is the prefix of the names of the runtime's own secrets, which tools do not see
// (SE3).
const reservedPrefix = "perdure:"

// maxSealAttempts limits how often sealing a secret is tried again after another writer changed the
// secret.
const maxSealAttempts = 16

// secrets implements tool.Secrets over the store (SE1 to SE4).
type secrets struct {
	binding
	cfg   Config
	cache *secretCache
}

var _ tool.Secrets = secrets{}

// secretContext is the seal context of one version of a secret.
func secretContext(org string, s store.Secret) secret.Place {
	return secret.Place{Org: org, Session: s.Session, Name: s.Name, Version: s.Version}
}

// openSecret opens a secret of a session of the given org. A secret that was sealed before seals
// were bound to the org opens too: its context names the session, and a session never changes its
// org. Key rotation seals it again with its org.
func (c Config) openSecret(org string, s store.Secret) ([]byte, error) {
	plain, err := c.Keys.Open(secretContext(org, s), s.Sealed)
	if org == "" || !errors.Is(err, secret.Tampered) {
		return plain, err
	}
	if former, failed := c.Keys.Open(secretContext("", s), s.Sealed); failed == nil {
		return former, nil
	}
	return nil, err
}

// SetSecret seals a value and adds or replaces the secret. Invalid: the secret is not valid, and
// the error says why.
func (p secrets) SetSecret(ctx context.Context, w tool.SecretWrite) error {
	if err := checkSecret(w); err != nil {
		return err
	}
	if p.cfg.Keys == nil {
		return p.noKeyring()
	}
	var err error
	for range maxSealAttempts {
		if err = p.seal(ctx, w); !errors.Is(err, perdure.Conflict) {
			break
		}
	}
	p.cache.refresh(p.session)
	if errors.Is(err, perdure.Limit) {
		return fmt.Errorf("%w: a session keeps at most %d secrets; delete one first", perdure.Limit, store.MaxKeys)
	}
	return err
}

// seal writes the next version. Conflict: another writer has written one since the last version was
// read.
func (p secrets) seal(ctx context.Context, w tool.SecretWrite) error {
	next := store.Secret{Session: p.session, Name: w.Name, Hosts: w.Hosts, Call: p.call.ID}
	var org string
	err := p.store.View(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(p.session)
		if err == nil {
			org = row.Org
			next.Version, err = r.Secrets().NextVersion(p.session, w.Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if next.Sealed, err = p.cfg.Keys.Seal(secretContext(org, next), []byte(w.Value)); err != nil {
		return err
	}
	if next.KeyID, err = secret.KeyID(next.Sealed); err != nil {
		return err
	}
	return p.write(ctx, func(tx store.Tx, of store.Session) error {
		if err := tx.Secrets().Put(next); err != nil {
			return err
		}
		return p.addAudit(ctx, tx, of, "secret.set", next.Name)
	})
}

// addAudit adds an action on a secret to the audit log. The actor is the call's tool, or the
// context's actor where no tool calls.
func (p secrets) addAudit(ctx context.Context, tx store.Tx, of store.Session, action, name string) error {
	return tx.Audit().Add(store.AuditEntry{
		Org: of.Org, Actor: cmp.Or(p.call.Tool, store.ActorOf(ctx)), Action: action, Subject: name, Session: p.session,
		Detail: map[string]string{"call_id": string(p.call.ID)},
	})
}

func (p secrets) Secret(ctx context.Context, name string) (tool.SecretStat, error) {
	found, err := p.read(ctx, name)
	if err != nil {
		return tool.SecretStat{}, err
	}
	return secretStat(found), nil
}

// Reveal opens a secret. The audit event of the read is committed before the value is returned
// (SE3).
func (p secrets) Reveal(ctx context.Context, name string) (string, error) {
	if p.cfg.Keys == nil {
		return "", p.noKeyring()
	}
	if isReserved(name) {
		return "", noSecret(name)
	}
	var found store.Secret
	var org string
	err := p.write(ctx, func(tx store.Tx, of store.Session) (err error) {
		org = of.Org
		if found, err = tx.Secrets().Get(p.session, name); err != nil {
			return err
		}
		sum := sha256.Sum256(found.Sealed)
		return p.appendFact(tx, perdure.AuditRecorded{
			Action: perdure.AuditRead, Subject: name, Hash: "sha256:" + hex.EncodeToString(sum[:]),
			Purpose: p.call.Tool,
		})
	})
	if errors.Is(err, perdure.NotFound) {
		return "", noSecret(name)
	}
	if err != nil {
		return "", err
	}
	plain, err := p.cfg.openSecret(org, found)
	if err != nil {
		return "", err
	}
	p.cache.refresh(p.session) // the mask of this call's output must know the value
	return string(plain), nil
}

// RemoveSecret removes a secret and reports whether it existed.
func (p secrets) RemoveSecret(ctx context.Context, name string) (existed bool, err error) {
	if isReserved(name) {
		return false, nil
	}
	err = p.write(ctx, func(tx store.Tx, of store.Session) (err error) {
		if existed, err = tx.Secrets().Remove(p.session, name); err != nil || !existed {
			return err
		}
		return p.addAudit(ctx, tx, of, "secret.removed", name)
	})
	p.cache.refresh(p.session)
	return existed, err
}

// Secrets lists the names in their order, without values.
func (p secrets) Secrets(ctx context.Context) (stats []tool.SecretStat, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		found, err := r.Secrets().List(store.SecretFilter{Session: p.session, WithoutValue: true})
		stats = nil
		for _, s := range found {
			if !isReserved(s.Name) {
				stats = append(stats, secretStat(s))
			}
		}
		return err
	})
	return stats, err
}

// read returns the row of a secret.
func (p secrets) read(ctx context.Context, name string) (found store.Secret, err error) {
	if isReserved(name) {
		return found, noSecret(name)
	}
	found, err = store.Read(ctx, p.store, func(r store.Reader) (store.Secret, error) {
		return r.Secrets().Get(p.session, name)
	})
	if errors.Is(err, perdure.NotFound) {
		err = noSecret(name)
	}
	return found, err
}

func (p secrets) noKeyring() error {
	return fmt.Errorf("%w: %s",
		perdure.Unavailable, cmp.Or(p.cfg.NoKeysReason, "this runtime has no keyring, so it cannot store secrets"))
}

func noSecret(name string) error { return fmt.Errorf("secret %q: %w", name, perdure.NotFound) }

// isReserved reports whether a name is reserved for the runtime's own secrets.
func isReserved(name string) bool { return strings.HasPrefix(name, reservedPrefix) }

func secretStat(s store.Secret) tool.SecretStat {
	return tool.SecretStat{
		Name: s.Name, Version: s.Version, Hosts: s.Hosts, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Call: s.Call,
	}
}

// checkSecret checks a secret before it is sealed. Invalid: it is not valid. The error says why,
// and contains nothing of the value.
func checkSecret(w tool.SecretWrite) error {
	switch {
	case w.Name == "" || len(w.Name) > store.MaxKeyBytes || !utf8.ValidString(w.Name) ||
		strings.ContainsFunc(w.Name, unicode.IsControl):
		return fmt.Errorf("%w name: it must have 1 to %d bytes of UTF-8 without control characters",
			perdure.Invalid, store.MaxKeyBytes)
	case isReserved(w.Name):
		return fmt.Errorf("%w name: names that begin with %s are the runtime's own", perdure.Invalid, reservedPrefix)
	case w.Value == "":
		return fmt.Errorf("%w value: it is empty", perdure.Invalid)
	case len(w.Value) > maxPlainBytes:
		return fmt.Errorf("%w value: it has %d bytes; the limit is %d", perdure.Invalid, len(w.Value), maxPlainBytes)
	case len(w.Hosts) > maxHosts:
		return fmt.Errorf("%w hosts: there are %d; the limit is %d", perdure.Invalid, len(w.Hosts), maxHosts)
	}
	for _, host := range w.Hosts {
		if !hostName(host) {
			return fmt.Errorf("%w host %.80q: use a host name such as api.example.com, without scheme, path or port",
				perdure.Invalid, host)
		}
	}
	return nil
}

// hostName reports whether a text is a host name in lower case, as in a URL.
func hostName(host string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."
	return host != "" && len(host) <= maxHostBytes && strings.Trim(host, letters) == "" &&
		!strings.HasPrefix(host, ".") && !strings.Contains(host, "..")
}

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

// The limits of a secret.
const (
	maxPlainBytes = 64 << 10
	maxHosts      = 50
	maxHostBytes  = 253
)

// ownNames begins the names that are the runtime's: for a tool they are not there (SE3).
const ownNames = "perdure:"

// sealings is how often a secret is sealed anew, since somebody else wrote it meanwhile.
const sealings = 16

// secrets is what a session keeps under lock and key (SE1 to SE4).
type secrets struct {
	binding
	cfg   Config
	known *known
}

var _ tool.Secrets = secrets{}

// place is where a version of a secret is sealed.
func place(org string, s store.Secret) secret.Place {
	return secret.Place{Org: org, Session: s.Session, Name: s.Name, Version: s.Version}
}

// openSecret opens a secret of a session of an org. One that was sealed before secrets were bound to their org opens, too: its place
// names the session, which is of one org for ever. When the keys are rotated it is sealed anew, for its org.
func (c Config) openSecret(org string, s store.Secret) ([]byte, error) {
	plain, err := c.Keys.Open(place(org, s), s.Sealed)
	if org == "" || !errors.Is(err, secret.Tampered) {
		return plain, err
	}
	if former, failed := c.Keys.Open(place("", s), s.Sealed); failed == nil {
		return former, nil
	}
	return nil, err
}

// SetSecret seals a value and writes it, or replaces it. Invalid: what is wrong with it.
func (p secrets) SetSecret(ctx context.Context, w tool.SecretWrite) error {
	if err := checkSecret(w); err != nil {
		return err
	}
	if p.cfg.Keys == nil {
		return p.noKeys()
	}
	var err error
	for range sealings {
		if err = p.seal(ctx, w); !errors.Is(err, perdure.Conflict) {
			break
		}
	}
	p.known.refresh(p.session)
	if errors.Is(err, perdure.Limit) {
		return fmt.Errorf("%w: a session keeps at most %d secrets; delete one first", perdure.Limit, store.MaxKeys)
	}
	return err
}

// seal writes the next version. Conflict: somebody else wrote one since it was read.
func (p secrets) seal(ctx context.Context, w tool.SecretWrite) error {
	next := store.Secret{Session: p.session, Name: w.Name, Hosts: w.Hosts, Call: p.call.ID}
	var org string
	err := p.store.View(ctx, func(r store.Reader) error {
		row, err := r.Session(p.session)
		if err == nil {
			org = row.Org
			next.Version, err = r.NextSecret(p.session, w.Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if next.Sealed, err = p.cfg.Keys.Seal(place(org, next), []byte(w.Value)); err != nil {
		return err
	}
	if next.KeyID, err = secret.KeyID(next.Sealed); err != nil {
		return err
	}
	return p.write(ctx, func(tx store.Tx, of store.Session) error {
		if err := tx.PutSecret(next); err != nil {
			return err
		}
		return p.account(ctx, tx, of, "secret.set", next.Name)
	})
}

// account adds to the audit log what was done to a secret, by the tool of the call or, without one, by who asks.
func (p secrets) account(ctx context.Context, tx store.Tx, of store.Session, action, name string) error {
	return tx.AddAudit(store.AuditEntry{
		Org: of.Org, Actor: cmp.Or(p.call.Tool, store.ActorOf(ctx)), Action: action, Subject: name, Session: p.session,
		Detail: map[string]string{"call_id": string(p.call.ID)},
	})
}

// Secret describes a secret.
func (p secrets) Secret(ctx context.Context, name string) (tool.SecretStat, error) {
	found, err := p.read(ctx, name)
	if err != nil {
		return tool.SecretStat{}, err
	}
	return secretStat(found), nil
}

// Reveal opens a secret. That it is read stands in the journal before anybody has it (SE3).
func (p secrets) Reveal(ctx context.Context, name string) (string, error) {
	if p.cfg.Keys == nil {
		return "", p.noKeys()
	}
	if own(name) {
		return "", noSecret(name)
	}
	var found store.Secret
	var org string
	err := p.write(ctx, func(tx store.Tx, of store.Session) (err error) {
		org = of.Org
		if found, err = tx.Secret(p.session, name); err != nil {
			return err
		}
		sum := sha256.Sum256(found.Sealed)
		return p.tell(tx, perdure.AuditRecorded{
			Action: perdure.AuditRead, Subject: name, Hash: "sha256:" + hex.EncodeToString(sum[:]), Purpose: p.call.Tool,
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
	p.known.refresh(p.session) // what masks this call knows what it was given
	return string(plain), nil
}

// RemoveSecret says whether it was there.
func (p secrets) RemoveSecret(ctx context.Context, name string) (there bool, err error) {
	if own(name) {
		return false, nil
	}
	err = p.write(ctx, func(tx store.Tx, of store.Session) (err error) {
		if there, err = tx.RemoveSecret(p.session, name); err != nil || !there {
			return err
		}
		return p.account(ctx, tx, of, "secret.removed", name)
	})
	p.known.refresh(p.session)
	return there, err
}

// Secrets lists the names in their order, without values.
func (p secrets) Secrets(ctx context.Context) (stats []tool.SecretStat, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		found, err := r.Secrets(store.SecretFilter{Session: p.session, Bare: true})
		stats = nil
		for _, s := range found {
			if !own(s.Name) {
				stats = append(stats, secretStat(s))
			}
		}
		return err
	})
	return stats, err
}

// read returns the row of a secret.
func (p secrets) read(ctx context.Context, name string) (found store.Secret, err error) {
	if own(name) {
		return found, noSecret(name)
	}
	err = p.store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Secret(p.session, name)
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		err = noSecret(name)
	}
	return found, err
}

func (p secrets) noKeys() error {
	return fmt.Errorf("%w: %s", perdure.Unavailable, cmp.Or(p.cfg.NoKeys, "this runtime has no keyring, so it keeps no secrets"))
}

func noSecret(name string) error { return fmt.Errorf("secret %q: %w", name, perdure.NotFound) }

// own reports a name that is the runtime's.
func own(name string) bool { return strings.HasPrefix(name, ownNames) }

func secretStat(s store.Secret) tool.SecretStat {
	return tool.SecretStat{Name: s.Name, Version: s.Version, Hosts: s.Hosts, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Call: s.Call}
}

// checkSecret says whether a secret may be kept. Invalid: what is wrong with it; nothing of the value is told.
func checkSecret(w tool.SecretWrite) error {
	switch {
	case w.Name == "" || len(w.Name) > store.MaxKeyBytes || !utf8.ValidString(w.Name) || strings.ContainsFunc(w.Name, unicode.IsControl):
		return fmt.Errorf("%w name: give 1 to %d bytes of UTF-8 without control characters", perdure.Invalid, store.MaxKeyBytes)
	case own(w.Name):
		return fmt.Errorf("%w name: those that begin with %s are the runtime's own", perdure.Invalid, ownNames)
	case w.Value == "":
		return fmt.Errorf("%w value: it is empty", perdure.Invalid)
	case len(w.Value) > maxPlainBytes:
		return fmt.Errorf("%w value: it has %d bytes, at most %d are kept", perdure.Invalid, len(w.Value), maxPlainBytes)
	case len(w.Hosts) > maxHosts:
		return fmt.Errorf("%w hosts: there are %d, at most %d are kept", perdure.Invalid, len(w.Hosts), maxHosts)
	}
	for _, host := range w.Hosts {
		if !hostName(host) {
			return fmt.Errorf("%w host %.80q: give a name such as api.example.com, without scheme, path and port", perdure.Invalid, host)
		}
	}
	return nil
}

// hostName reports a host as it stands in a URL, in lower case.
func hostName(host string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."
	return host != "" && len(host) <= maxHostBytes && strings.Trim(host, letters) == "" && !strings.HasPrefix(host, ".") && !strings.Contains(host, "..")
}

package sessionport_test

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The terms of docs/reference/ports.md for the owner of the state behind a port.
const (
	ofSession = "session"
	ofUser    = "user of an org"
	ofOrg     = "org"
	ofRuntime = "runtime"
)

// claim is the use of a port by a session: leave writes state, or has it written for the session's
// owner, and sees reports whether the port shows it.
type claim struct {
	port  string
	whose string
	leave func(w *world, p tool.Ports, of store.Session) error
	sees  func(w *world, p tool.Ports, of store.Session) (bool, error)
}

// claims has every port that New opens and that has state, except Payments, whose law is
// TestPaymentCaps.
func claims(cfg sessionport.Config) []claim {
	return slices.Concat(sealedClaims(), sessionClaims(), ownerClaims(cfg))
}

// found reports whether something exists, by the error of a read.
func found(err error) (bool, error) {
	if errors.Is(err, perdure.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// sealedClaims are the values and the secrets of a session.
func sealedClaims() []claim {
	words := map[perdure.SessionID]string{}
	return []claim{
		{"Values", ofSession, func(w *world, p tool.Ports, _ store.Session) error { return p.Values.SetValue(w.Context(), "k", "v") },
			func(w *world, p tool.Ports, _ store.Session) (bool, error) {
				_, ok, err := p.Values.Value(w.Context(), "k")
				return ok, err
			}},
		{"Secrets", ofSession, func(w *world, p tool.Ports, of store.Session) error {
			words[of.ID] = "the secret of " + string(of.ID)
			return p.Secrets.SetSecret(w.Context(), tool.SecretWrite{Name: "s", Value: words[of.ID]})
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			_, err := p.Secrets.Reveal(w.Context(), "s")
			return found(err)
		}},
		{"SecretMasker", ofSession, func(*world, tool.Ports, store.Session) error { return nil }, // what Secrets wrote
			func(_ *world, p tool.Ports, of store.Session) (bool, error) {
				return p.SecretMasker.Any() && !strings.Contains(p.SecretMasker.Mask(words[of.ID]), words[of.ID]), nil
			}},
	}
}

// sessionClaims are the ports with other state of a session.
func sessionClaims() []claim {
	images := map[perdure.SessionID]perdure.ImageID{}
	order := tool.LeaseRequest{Provider: "cloud", Type: "box", ExternalID: "i-1", Duration: time.Hour}
	return []claim{
		{"Images", ofSession, func(w *world, p tool.Ports, of store.Session) error {
			made, err := p.Images.Create(w.Context(), tool.ImageWrite{Filename: "a.png", Data: png(64)})
			images[of.ID] = made.ID
			return err
		}, func(w *world, p tool.Ports, of store.Session) (bool, error) {
			_, err := p.Images.Image(w.Context(), images[of.ID])
			return found(err)
		}},
		{"SQL", ofSession, func(w *world, p tool.Ports, _ store.Session) error {
			_, err := p.SQL.Execute(w.Context(), tool.SQLStatement{Text: "CREATE TABLE t (a)"})
			return err
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			all, err := p.SQL.Databases(w.Context())
			return len(all) > 0, err
		}},
		{"Resources", ofSession, func(w *world, p tool.Ports, of store.Session) error {
			_, err := p.Resources.Register(w.Context(), tool.Resource{ID: "r", Kind: "box", Name: "a box", Status: tool.ResourceActive})
			return err
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			_, err := p.Resources.Resource(w.Context(), "r")
			return found(err)
		}},
		{"Leases", ofSession, func(w *world, p tool.Ports, _ store.Session) error { // its creator owns it; its org may extend it
			_, err := p.Leases.Lease(w.Context(), order)
			return err
		}, func(w *world, p tool.Ports, of store.Session) (bool, error) {
			all, err := p.Leases.List(w.Context())
			return len(all) > 0, err
		}},
		{"Session", ofSession, func(w *world, p tool.Ports, of store.Session) error { return p.Session.SetTitle(w.Context(), "mine") },
			func(w *world, p tool.Ports, _ store.Session) (bool, error) {
				title, err := p.Session.Title(w.Context())
				return title == "mine", err
			}},
		{"Messages", ofSession, func(w *world, _ tool.Ports, of store.Session) error {
			return w.InTx(w.Context(), func(tx store.Tx) error {
				return tx.Journal().Append(of.ID, []perdure.Event{{ID: "event_2_of_" + perdure.EventID(of.ID), Actor: "runtime", Fact: perdure.TaskDelivered{Message: said(perdure.RoleUser, "hello")}}})
			})
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			page, err := p.Messages.Messages(w.Context(), 0, 10)
			return len(page.Messages) > 0, err
		}},
	}
}

// ownerClaims are the ports with state that several sessions share.
func ownerClaims(cfg sessionport.Config) []claim {
	return []claim{
		{"Connections", ofUser, func(w *world, _ tool.Ports, of store.Session) error {
			key := store.ConnectionKey{Org: of.Org, User: of.User, Provider: "github"}
			sealed, err := cfg.SealToken(key, "token")
			if err != nil {
				return err
			}
			return w.InTx(w.Context(), func(tx store.Tx) error {
				_, err := tx.Directory().Connections().Put(store.Connection{Org: key.Org, User: key.User, Provider: key.Provider, Sealed: sealed})
				return err
			})
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			_, err := p.Connections.Token(w.Context(), "github")
			return found(err)
		}},
		{"Credentials", ofRuntime, func(w *world, _ tool.Ports, _ store.Session) error {
			return w.InTx(w.Context(), func(tx store.Tx) error {
				_, err := tx.Directory().Providers().Put(store.Provider{ID: openaiID, Kind: "openai"})
				return errors.Join(err, tx.Directory().Providers().SetDefault(openaiID))
			})
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			_, err := p.Credentials.Credential(w.Context(), "openai")
			return found(err)
		}},
		{"Budgets", ofUser, func(w *world, _ tool.Ports, of store.Session) error {
			return w.InTx(w.Context(), func(tx store.Tx) error {
				b, err := budget.Budget{ID: "budget_1", Subject: budget.Subject{Scope: budget.User, ID: of.User}.StoredIn(of.Org), Currency: budget.Tokens, Limit: budget.Whole(5)}.WithDefaults()
				if err != nil {
					return err
				}
				return tx.Budgets().Put(budget.Account{Budget: b})
			})
		}, func(w *world, p tool.Ports, _ store.Session) (bool, error) {
			report, err := p.Budgets.CheckBudgets(w.Context())
			return len(report.Budgets) > 0, err
		}},
	}
}

// TestPortsByOwner is the law of docs/reference/ports.md for two orgs and two users of each: what a
// session writes through a port is visible to the sessions with the same owner, and to no other
// one.
func TestPortsByOwner(t *testing.T) {
	t.Parallel()
	for _, c := range claims(sessionport.Config{}) {
		eachStore(t, func(w *world) {
			sql, err := sessionsql.New(sessionsql.Config{Dir: w.TempDir()})
			if err != nil {
				w.Fatal(err)
			}
			w.Cleanup(func() { w.ok(sql.Close()) })
			cfg := sessionport.Config{Store: w.Store, Keys: keyring(w.T), SQL: sql, Meter: meter.New(meter.Config{})}
			open := sessionport.New(cfg)
			var sessions []store.Session
			for _, of := range []store.Session{{Org: "acme", User: "ada"}, {Org: "acme", User: "ada"}, {Org: "acme", User: "bob"}, {User: "ada"}, {User: "bob"}} {
				of.ID = w.sessionOf(of.Org, of.User)
				sessions = append(sessions, of)
			}
			mine := sessions[0]
			all := claims(cfg)
			law := all[slices.IndexFunc(all, func(other claim) bool { return other.port == c.port })]
			if law.port == "SecretMasker" {
				w.ok(all[1].leave(w, open(mine.ID, tool.Call{}), mine))
			}

			w.ok(law.leave(w, open(mine.ID, tool.Call{}), mine))

			for i, of := range sessions {
				want := i == 0 || law.whose == ofRuntime || law.whose != ofSession && of.Org == mine.Org && (law.whose == ofOrg || of.User == mine.User)
				got, err := law.sees(w, open(of.ID, tool.Call{}), mine)
				if got != want || err != nil {
					w.Errorf("%s, which is of the %s: %s of %q sees it: %t, %v, want %t", law.port, law.whose, of.User, of.Org, got, err, want)
				}
			}
		})
	}
}

// TestPortsSayWhose: ports.md documents the owner of every port's state, and agrees with the laws.
func TestPortsSayWhose(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/ports.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| ([a-z ]+) \\|").FindAllStringSubmatch(string(page), -1) {
		said[row[1]] = row[2]
	}
	for _, of := range []reflect.Type{reflect.TypeFor[tool.Env](), reflect.TypeFor[tool.Ports]()} {
		for i := range of.NumField() {
			f := of.Field(i)
			if f.Type.Kind() == reflect.Interface && f.Name != "Sink" && !slices.Contains([]string{ofSession, ofUser, ofOrg, ofRuntime}, said[f.Name]) {
				t.Errorf("ports.md says %q of whose %s is", said[f.Name], f.Name)
			}
		}
	}
	for _, c := range claims(sessionport.Config{}) {
		if said[c.port] != c.whose {
			t.Errorf("ports.md says that %s is of the %q, and the law that it is of the %q", c.port, said[c.port], c.whose)
		}
	}
}

// TestLeasesOfTwoOrgs: resources of two orgs with the same name at a provider are two resources. No
// org extends, releases or cleans up the other's.
func TestLeasesOfTwoOrgs(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		mine, theirs := w.sessionOf("acme", "ada"), w.sessionOf("", "ada")
		order := tool.LeaseRequest{Provider: "cloud", Type: "box", ExternalID: "i-1", Owner: "ada", Duration: time.Hour}

		first, err := w.ports(mine).Leases.Lease(w.Context(), order)
		w.ok(err)
		second, err := w.ports(theirs).Leases.Lease(w.Context(), order)
		w.ok(err)

		w.same("orgs", []string{first.Org, second.Org}, []string{"acme", ""})
		w.same("sessions", []perdure.SessionID{first.Session, second.Session}, []perdure.SessionID{mine, theirs})
		_, err = w.ports(theirs).Leases.Release(w.Context(), order.Provider, order.Type, order.ExternalID)
		w.ok(err)
		left, err := w.ports(mine).Leases.List(w.Context())
		w.ok(err)
		w.same("the other one", left, []tool.Lease{first})
	})
}

// TestSecretsOfAnOrg: a secret is sealed for the org of its session, so it opens in no row of
// another org. One that was sealed before this rule still opens, and is bound to its org by the
// next rotation.
func TestSecretsOfAnOrg(t *testing.T) {
	t.Parallel()
	l := newLocked(t)
	at := secret.Place{Org: "acme", Session: l.one, Name: "name", Version: 1}
	l.set(l.one, "name", "a value")
	if plain, err := l.keys.Open(at, l.row(l.one, "name").Sealed); string(plain) != "a value" || err != nil {
		t.Errorf("opened for its org: got %q, %v", plain, err)
	}

	former := store.Secret{Session: l.one, Name: "former", Version: 1}
	var err error
	if former.Sealed, err = l.keys.Seal(secret.Place{Session: l.one, Name: "former", Version: 1}, []byte("an old value")); err != nil {
		t.Fatal(err)
	}
	if former.KeyID, err = l.keys.Current(); err != nil {
		t.Fatal(err)
	}
	l.tx(func(tx store.Tx) error { return tx.Secrets().Put(former) })
	for _, when := range []string{"before a rotation", "after it"} {
		if got, err := l.ports(l.one).Secrets.Reveal(l.Context(), "former"); got != "an old value" || err != nil {
			t.Errorf("%s: got %q, %v", when, got, err)
		}
		if shown := l.ports(l.one).SecretMasker.Mask("it is an old value"); strings.Contains(shown, "an old value") {
			t.Errorf("%s: %q is not masked", when, shown)
		}
		if when == "after it" {
			break
		}
		if _, err := l.keys.Rotate(); err != nil {
			t.Fatal(err)
		}
		if n, err := sessionport.Reencrypt(l.Context(), l.cfg(), nil); n != 2 || err != nil {
			t.Errorf("re-encrypted: got %d, %v, want 2", n, err)
		}
	}
	at.Name = "former"
	if plain, err := l.keys.Open(at, l.row(l.one, "former").Sealed); string(plain) != "an old value" || err != nil {
		t.Errorf("after a rotation it is not bound to its org: got %q, %v", plain, err)
	}
}

package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/store"
)

// chain is an audit log that a test can damage.
type chain struct {
	links []store.AuditLink
	heads []store.AuditHead
}

func (c chain) Links(org string, after int64, limit int) (found []store.AuditLink, err error) {
	for _, l := range c.links {
		if l.Org == org && l.Seq > after && (limit == 0 || len(found) < limit) {
			found = append(found, l)
		}
	}
	return found, nil
}

func (c chain) Heads() ([]store.AuditHead, error) { return c.heads, nil }

// clone copies a chain with the bytes of its records.
func (c chain) clone() chain {
	c.links, c.heads = slices.Clone(c.links), slices.Clone(c.heads)
	for i := range c.links {
		c.links[i].Record = slices.Clone(c.links[i].Record)
	}
	return c
}

// found returns what CheckAudit reports.
func (c chain) found(t *testing.T) (wrong []string) {
	t.Helper()
	_, err := store.CheckAudit(c, func(store.AuditEntry) {}, func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf(format, args...))
	})
	if err != nil {
		t.Fatal(err)
	}
	return wrong
}

func newChain(t *testing.T, entries int) (c chain) {
	t.Helper()
	head := store.AuditHead{Org: "org"}
	for n := range entries {
		link, err := store.AuditEntry{
			Actor: "ada", Action: "secret.read",
			Subject: fmt.Sprint("KEY ", n), Detail: map[string]string{"call_id": "call_1"},
		}.Link(head, time.Unix(int64(n), 0))
		if err != nil {
			t.Fatal(err)
		}
		c.links, head = append(c.links, link), store.AuditHead{Org: link.Org, Seq: link.Seq, Hash: link.Hash}
	}
	c.heads = []store.AuditHead{head}
	return c
}

// TestS26Flipper checks that every damage to an audit log is found: every flipped bit of every
// record and hash, every removed entry, every two swapped entries, a cut end, and a head that is
// old or missing.
func TestS26Flipper(t *testing.T) {
	t.Parallel()
	const entries = 8
	whole := newChain(t, entries)
	if wrong := whole.found(t); len(wrong) > 0 {
		t.Fatalf("an intact chain: got %q", wrong)
	}

	damages, missed := 0, 0
	damage := func(what string, do func(*chain)) {
		t.Helper()
		c := whole.clone()
		do(&c)
		damages++
		if len(c.found(t)) == 0 {
			missed++
			t.Errorf("%s: no damage found", what)
		}
	}
	for i, link := range whole.links {
		for bit := range 8 * len(link.Record) {
			damage(fmt.Sprintf("bit %d of entry %d", bit, i+1), func(c *chain) {
				c.links[i].Record[bit/8] ^= 1 << (bit % 8)
			})
		}
		for bit := range 8 * len(link.Hash) {
			damage(fmt.Sprintf("bit %d of the hash of entry %d", bit, i+1), func(c *chain) {
				hash := []byte(c.links[i].Hash)
				hash[bit/8] ^= 1 << (bit % 8)
				c.links[i].Hash = string(hash)
			})
		}
		damage(fmt.Sprint("without entry ", i+1), func(c *chain) { c.links = slices.Delete(c.links, i, i+1) })
		damage(fmt.Sprint("cut before entry ", i+1), func(c *chain) { c.links = c.links[:i] })
		damage(fmt.Sprint("a head put back before entry ", i+1), func(c *chain) {
			c.heads[0] = newChain(t, i).heads[0]
		})
		for j := range i {
			damage(fmt.Sprintf("entries %d and %d swapped", j+1, i+1), func(c *chain) {
				c.links[i].Record, c.links[j].Record = c.links[j].Record, c.links[i].Record
				c.links[i].Hash, c.links[j].Hash = c.links[j].Hash, c.links[i].Hash
			})
		}
		damage(fmt.Sprintf("entry %d rewritten, with its hash", i+1), func(c *chain) {
			e, err := c.links[i].Entry()
			if err != nil {
				t.Fatal(err)
			}
			e.Subject = "another"
			if c.links[i], err = e.Link(store.AuditHead{Org: e.Org, Seq: e.Seq - 1, Hash: e.Prev}, e.At); err != nil {
				t.Fatal(err)
			}
		})
	}
	damage("without a head", func(c *chain) { c.heads[0] = store.AuditHead{Org: "org"} })
	t.Logf("%d damages to %d entries, %d not found", damages, entries, missed)
}

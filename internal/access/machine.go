package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
)

// MachineAccess identifies settings of a session that refer to the server's machine: a directory on
// it, or a model that is a file on it or an address of the caller's choice, which would be called
// with the machine's keys. Only principals that have access to the machine anyway may use them: the
// local operator, and the bearer of the data directory's own token. Others can use agents that one
// of these has stored (S1, S4, S18). The zero value identifies no settings.
type MachineAccess struct {
	DirectoryKey string                 // the key in an agent's metadata that names a directory; empty: none
	Model        func(name string) bool // reports whether a model name refers to the machine; nil: none does
}

// isForeign reports whether the principal has no access to the machine.
func (m MachineAccess) isForeign(ctx context.Context) (Principal, bool) {
	p, asks := PrincipalFrom(ctx)
	return p, asks && p.ID != Root
}

// allow returns nil if the principal may use a model and metadata. Denied: they refer to the
// machine.
func (m MachineAccess) allow(ctx context.Context, model string, metadata map[string]string) error {
	p, foreign := m.isForeign(ctx)
	if !foreign {
		return nil
	}
	var what string
	if _, named := metadata[m.DirectoryKey]; named && m.DirectoryKey != "" {
		what = fmt.Sprintf("a directory on the server's machine (metadata %q)", m.DirectoryKey)
	} else if m.Model != nil && m.Model(model) {
		what = "a model by a file on the server's machine or by an address"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: the token %s may not name %s; only the token of the data directory may do that, "+
		"and it can store an agent with it for others", perdure.Denied, p.ID, what)
}

// mayGrant returns nil if the principal may give an agent its rules about permissions. Denied: one
// of them allows something, and only an administrator may do that.
func mayGrant(ctx context.Context, rules []perdure.PermissionRule) error {
	p, asks := PrincipalFrom(ctx)
	allows := slices.ContainsFunc(rules, func(r perdure.PermissionRule) bool { return r.Decision == perdure.Allow })
	if !asks || !allows || p.May(Admin) {
		return nil
	}
	return fmt.Errorf("%w: the token %s may not allow permissions to an agent; that needs the scope %s, "+
		"whose bearer can store an agent with them for others", perdure.Denied, p.ID, Admin)
}

// imported returns a check that applies [MachineAccess.allow] to an imported journal; nil: the
// principal may use everything.
func (m MachineAccess) imported(ctx context.Context) func([]perdure.Event) error {
	if _, foreign := m.isForeign(ctx); !foreign {
		return nil
	}
	return func(journal []perdure.Event) error {
		for _, ev := range journal {
			var err error
			switch fact := ev.Fact.(type) {
			case perdure.SessionCreated:
				err = m.allow(ctx, fact.Agent.Model, fact.Agent.Metadata)
			case perdure.MessageReceived:
				err = m.allow(ctx, fact.Message.Model, nil)
			case perdure.TurnStarted:
				err = m.allow(ctx, fact.Model, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

package access

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
)

// Machine tells which words of a session name what belongs to the machine that the server runs on: a folder of it, or a model that
// is a file of it or is asked at an address of the caller's choice, with the keys of the machine. They are for who can reach
// all that anyhow: the local operator, and the bearer of the data directory's own token. Others start sessions of agents that one of
// these keeps (S1, S4, S18). The zero value knows of no such words.
type Machine struct {
	Folder string                 // the key of an agent's metadata that names a folder; empty: none does
	Model  func(name string) bool // reports whether the name of a model does; nil: none does
}

// foreign reports whether somebody asks to whom the machine does not belong.
func (m Machine) foreign(ctx context.Context) (Principal, bool) {
	p, asks := From(ctx)
	return p, asks && p.ID != Root
}

// allow is nil when who asks may say a model and metadata. Denied: they name what is the machine's.
func (m Machine) allow(ctx context.Context, model string, metadata map[string]string) error {
	p, foreign := m.foreign(ctx)
	if !foreign {
		return nil
	}
	var what string
	if _, named := metadata[m.Folder]; named && m.Folder != "" {
		what = fmt.Sprintf("a folder of the server's machine (metadata %q)", m.Folder)
	} else if m.Model != nil && m.Model(model) {
		what = "a model by a file of the server's machine or by an address"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: the token %s may not name %s: that is for the token of the data directory, whose bearer may keep an agent with it for others", perdure.Denied, p.ID, what)
}

// imported is [Machine.allow] of what a journal says that somebody takes in; nil: who asks may say all of it.
func (m Machine) imported(ctx context.Context) func([]perdure.Event) error {
	if _, foreign := m.foreign(ctx); !foreign {
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

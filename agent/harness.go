package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// MaxChain is the maximum number of harnesses in a chain.
const MaxChain = 16

// maxNameBytes bounds the name of a harness or an agent.
const maxNameBytes = 256

// Harness is a layer of configuration that agents and other harnesses inherit from, for instance
// the rules of a product.
type Harness struct {
	ID        perdure.HarnessID `json:"id"`
	Name      string            `json:"name"`
	Parent    perdure.HarnessID `json:"parent_id,omitempty"` // empty: it is a root
	Overlay   Overlay           `json:"overlay"`
	Status    Status            `json:"status"`
	Version   int64             `json:"version"`      // counts the writes, from 1; 0: never written
	By        string            `json:"by,omitempty"` // the author of this version; may be empty
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// Agent is a stored agent: the configuration that a session is started with, on top of a chain of
// harnesses.
type Agent struct {
	ID        perdure.AgentID   `json:"id"`
	Name      string            `json:"name"`
	Harness   perdure.HarnessID `json:"harness_id,omitempty"` // the leaf of its chain; empty: none
	Overlay   Overlay           `json:"overlay"`
	Status    Status            `json:"status"`
	Version   int64             `json:"version"`      // counts the writes, from 1
	By        string            `json:"by,omitempty"` // the author of this version; may be empty
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// Check returns an Invalid error if the harness is wrong. The store checks whether its parent
// exists.
func (h Harness) Check() error {
	if _, err := perdure.ParseID[perdure.HarnessID](string(h.ID)); err != nil {
		return err
	}
	if err := checkParts(h.Name, h.Status, h.Overlay); err != nil {
		return fmt.Errorf("harness %s: %w", h.ID, err)
	}
	return nil
}

// Check returns an Invalid error if the agent is wrong. The store checks whether its harness
// exists.
func (a Agent) Check() error {
	if _, err := perdure.ParseID[perdure.AgentID](string(a.ID)); err != nil {
		return err
	}
	if err := checkParts(a.Name, a.Status, a.Overlay); err != nil {
		return fmt.Errorf("agent %s: %w", a.ID, err)
	}
	return nil
}

func checkParts(name string, status Status, o Overlay) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("%w name: it has %d bytes, and 1 to %d are allowed", perdure.Invalid, len(name), maxNameBytes)
	}
	if !status.Valid() {
		return fmt.Errorf("%w status %q: use active, archived or deleted", perdure.Invalid, status)
	}
	return o.Check()
}

// Chain follows the parents from a leaf to its root and returns the chain, root first. find returns
// the harness with an id, and whether it exists. Without a leaf, or if the leaf does not exist, the
// chain is empty. Invalid: a cycle, more than MaxChain harnesses, or a missing parent. A missing
// parent must be an error, because whatever it forbids would otherwise be allowed.
func Chain(leaf perdure.HarnessID, find func(perdure.HarnessID) (Harness, bool, error)) ([]Harness, error) {
	var chain []Harness
	seen := map[perdure.HarnessID]bool{}
	for id := leaf; id != ""; {
		switch {
		case seen[id]:
			return nil, fmt.Errorf("%w chain of harness %s: it contains %s twice", perdure.Invalid, leaf, id)
		case len(chain) == MaxChain:
			return nil, fmt.Errorf("%w chain of harness %s: more than %d harnesses", perdure.Invalid, leaf, MaxChain)
		}
		h, found, err := find(id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("chain of harness %s: %w", leaf, err)
		case !found && id == leaf:
			return nil, nil
		case !found:
			return nil, fmt.Errorf("%w chain of harness %s: the parent %s does not exist", perdure.Invalid, leaf, id)
		}
		seen[id] = true
		chain = append(chain, h)
		id = h.Parent
	}
	slices.Reverse(chain)
	return chain, nil
}

// FirstUnusable returns which harness of a chain is archived or deleted. ok is true if none is.
func FirstUnusable(chain []Harness) (reason string, ok bool) {
	for _, h := range chain {
		if !h.Status.Usable() {
			return fmt.Sprintf("harness %s is %s", h.ID, h.Status), false
		}
	}
	return "", true
}

package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// MaxChain is how many harnesses a chain has at most.
const MaxChain = 16

// maxNameBytes bounds the name of a harness or an agent.
const maxNameBytes = 256

// Harness is a layer that agents and other harnesses stand on: the house rules of a product, for instance.
type Harness struct {
	ID        perdure.HarnessID `json:"id"`
	Name      string            `json:"name"`
	Parent    perdure.HarnessID `json:"parent_id,omitempty"` // empty: it is a root
	Overlay   Overlay           `json:"overlay"`
	Status    Status            `json:"status"`
	Version   int64             `json:"version"`      // counts the writes, from 1; 0 is one that was never written
	By        string            `json:"by,omitempty"` // who wrote this version; empty: nobody said
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// Agent is a kept agent: who a session talks with, over a chain of harnesses.
type Agent struct {
	ID        perdure.AgentID   `json:"id"`
	Name      string            `json:"name"`
	Harness   perdure.HarnessID `json:"harness_id,omitempty"` // the leaf of its chain; empty: it stands alone
	Overlay   Overlay           `json:"overlay"`
	Status    Status            `json:"status"`
	Version   int64             `json:"version"`      // as a harness's
	By        string            `json:"by,omitempty"` // likewise
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// Check returns what is wrong with a harness. It is Invalid. Whether its parent is there is the store's to say.
func (h Harness) Check() error {
	if _, err := perdure.ParseID[perdure.HarnessID](string(h.ID)); err != nil {
		return err
	}
	if err := checkParts(h.Name, h.Status, h.Overlay); err != nil {
		return fmt.Errorf("harness %s: %w", h.ID, err)
	}
	return nil
}

// Check returns what is wrong with an agent. It is Invalid. Whether its harness is there is the store's to say.
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
		return fmt.Errorf("%w status %q: active, archived or deleted", perdure.Invalid, status)
	}
	return o.Check()
}

// Chain walks from a leaf to its root and returns the chain root first. find answers with the harness of an id, and
// whether there is one. An unknown leaf, or none, is a chain of nothing, and no error (N8). Invalid: a cycle, more than
// MaxChain harnesses, or a parent that is not there, since what it forbids would be allowed without it.
func Chain(leaf perdure.HarnessID, find func(perdure.HarnessID) (Harness, bool, error)) ([]Harness, error) {
	var chain []Harness
	seen := map[perdure.HarnessID]bool{}
	for id := leaf; id != ""; {
		switch {
		case seen[id]:
			return nil, fmt.Errorf("%w chain of harness %s: it comes to %s twice", perdure.Invalid, leaf, id)
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
			return nil, fmt.Errorf("%w chain of harness %s: there is no harness %s, which one of it stands on", perdure.Invalid, leaf, id)
		}
		seen[id] = true
		chain = append(chain, h)
		id = h.Parent
	}
	slices.Reverse(chain)
	return chain, nil
}

// Broken names the first harness of a chain that is archived or deleted, and says which it is (N11); ok: none is.
func Broken(chain []Harness) (reason string, ok bool) {
	for _, h := range chain {
		if !h.Status.Works() {
			return fmt.Sprintf("harness %s is %s", h.ID, h.Status), false
		}
	}
	return "", true
}

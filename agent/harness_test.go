package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// shelf holds harnesses.
type shelf map[perdure.HarnessID]agent.Harness

func (s shelf) find(id perdure.HarnessID) (agent.Harness, bool, error) {
	h, ok := s[id]
	return h, ok, nil
}

// row returns a chain of n harnesses h0 ← h1 ← …
func row(n int) shelf {
	s := shelf{}
	for i := range n {
		h := agent.Harness{ID: harnessID(i), Name: fmt.Sprint(i)}
		if i > 0 {
			h.Parent = harnessID(i - 1)
		}
		s[h.ID] = h
	}
	return s
}

func harnessID(i int) perdure.HarnessID { return perdure.HarnessID(fmt.Sprintf("h%d", i)) }

// TestChain holds N8's chains.
func TestChain(t *testing.T) {
	t.Parallel()
	for n := range agent.MaxChain + 1 {
		chain, err := agent.Chain(harnessID(n-1), row(n).find)
		if err != nil || len(chain) != n {
			t.Fatalf("of %d: got %d, %v", n, len(chain), err)
		}
		for i, h := range chain {
			if h.ID != harnessID(i) {
				t.Errorf("of %d: got %s at %d, want it root first", n, h.ID, i)
			}
		}
	}
	if chain, err := agent.Chain("", row(3).find); err != nil || len(chain) > 0 {
		t.Errorf("of no harness: got %v, %v, want none", chain, err)
	}

	circle, cut := row(3), row(3)
	circle["h0"] = agent.Harness{ID: "h0", Parent: "h2"}
	delete(cut, "h1")
	for name, c := range map[string]struct {
		leaf perdure.HarnessID
		of   shelf
	}{
		"contains h2 twice":      {"h2", circle},
		"more than 16 harnesses": {"h16", row(17)},
		"the parent h1 does not": {"h2", cut},
	} {
		if _, err := agent.Chain(c.leaf, c.of.find); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an invalid chain that %s", err, name)
		}
	}
	broken := func(perdure.HarnessID) (agent.Harness, bool, error) {
		return agent.Harness{}, false, perdure.Unavailable
	}
	if _, err := agent.Chain("h0", broken); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("got %v, want the error of the lookup", err)
	}
}

// TestStatus: a status only moves forward (N11).
func TestStatus(t *testing.T) {
	t.Parallel()
	may := map[[2]agent.Status]bool{
		{agent.Active, agent.Active}: true, {agent.Active, agent.Archived}: true, {agent.Active, agent.Deleted}: true,
		{agent.Archived, agent.Archived}: true, {agent.Archived, agent.Deleted}: true,
	}
	for _, before := range []agent.Status{agent.Active, agent.Archived, agent.Deleted} {
		for _, after := range []agent.Status{agent.Active, agent.Archived, agent.Deleted, "other"} {
			if got := after.Follows(before); got != may[[2]agent.Status{before, after}] {
				t.Errorf("%s to %s: got %t", before, after, got)
			}
		}
	}
	if !agent.Active.Usable() || agent.Archived.Usable() || agent.Deleted.Usable() || agent.Status("other").Usable() {
		t.Error("only an active harness is usable")
	}
	archived := []agent.Harness{{ID: "h0", Status: agent.Active}, {ID: "h1", Status: agent.Archived}}
	if why, ok := agent.FirstUnusable(archived); ok || why != "harness h1 is archived" {
		t.Errorf("got %q, %t", why, ok)
	}
	if _, ok := agent.FirstUnusable(archived[:1]); !ok {
		t.Error("an active chain is broken")
	}
}

// TestCheckRows: ids, names and statuses are looked at, and the overlay with them.
func TestCheckRows(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("1", 32)
	good := agent.Agent{ID: perdure.AgentID("agent_" + id), Name: "reader"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*agent.Agent){
		"agent id":        func(a *agent.Agent) { a.ID = "agent" },
		"name":            func(a *agent.Agent) { a.Name = "" },
		"it has 257":      func(a *agent.Agent) { a.Name = strings.Repeat("x", 257) },
		`status "gone"`:   func(a *agent.Agent) { a.Status = "gone" },
		"soft_budget_ms ": func(a *agent.Agent) { a.Overlay.SoftBudgetMS = -7 },
	} {
		bad := good
		change(&bad)
		h := agent.Harness{ID: perdure.HarnessID(strings.Replace(string(bad.ID), "agent", "harness", 1)), Name: bad.Name, Status: bad.Status, Overlay: bad.Overlay}
		if err := bad.Check(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("agent: got %v, want an invalid %s", err, want)
		}
		if err := h.Check(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), strings.Replace(want, "agent id", "harness id", 1)) {
			t.Errorf("harness: got %v, want an invalid %s", err, want)
		}
	}
}

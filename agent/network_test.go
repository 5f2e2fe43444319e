package agent_test

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// TestListNeverReopens: where the lists of harness, agent and session have nothing in common,
// nothing is reached, and no later layer, nor a subagent, opens any of it again (NL2).
func TestListNeverReopens(t *testing.T) {
	t.Parallel()
	layer := func(allowed ...string) agent.Overlay {
		return agent.Overlay{NetworkAccess: []perdure.NetworkList{{Allowed: allowed}}}
	}
	for name, layers := range map[string][]agent.Overlay{
		"harness and agent":             {layer("a.test"), layer("b.test"), {}},
		"agent and session":             {{}, layer("a.test"), layer("b.test")},
		"harness and session":           {layer("a.test"), {}, layer("b.test")},
		"a session that asks for it":    {layer("a.test"), layer("b.test"), layer("a.test", "b.test", "*.test")},
		"a wildcard of an exact host":   {layer("a.test"), layer("*.a.test"), layer("a.test")},
		"another scheme":                {layer("https://a.test/"), layer("http://a.test/"), layer("https://a.test/")},
		"a prefix that is not so long":  {layer("https://a.test/v1"), layer("https://a.test/v"), layer("https://a.test/v1")},
		"a session that says it itself": {layer("a.test"), {}, {NetworkAccess: []perdure.NetworkList{{Allowed: []string{"b.test"}}, {Allowed: []string{"a.test"}}}}},
	} {
		resolved, err := agent.Resolve(agent.Fold(layers...))
		if err != nil {
			t.Fatal(err)
		}
		child := resolved.Child(perdure.Agent{Network: perdure.NetworkList{Allowed: []string{"a.test", "b.test"}}})
		for _, url := range []string{"http://a.test/", "https://a.test/v1", "http://b.test/", "https://x.a.test/"} {
			for who, list := range map[string]perdure.NetworkList{"session": resolved.Network, "subagent": child.Network} {
				if ok, _ := list.Permits(url); ok {
					t.Errorf("%s: the %s reaches %s", name, who, url)
				}
			}
		}
	}
}

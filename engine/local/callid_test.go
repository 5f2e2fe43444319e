package local_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
)

// TestCallIDsArePlain: people paste call ids into a shell, and a model chooses them. An id with
// other characters is replaced, and recorded with the call (S17, N7).
func TestCallIDsArePlain(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("ids", []byte(`
steps:
  - calls:
      - {name: echo, id: 'x;touch$IFS/tmp/pwned;#', args: {message: a}}
      - {name: echo, id: "a\nb\e[31m", args: {message: b}}
      - {name: echo, id: call_good-1.2, args: {message: c}}
  - text: done
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := local.Config{Store: memory.New(memory.Config{}), Model: script, Tools: tool.NewRegistry(core.Tools()...)}

	s := converse(t, cfg, perdure.Agent{}, "go")

	calls := s.Transcript[1].Calls()
	if len(calls) != 3 || calls[2].ID != "call_good-1.2" || calls[2].ProviderCallID != "" {
		t.Fatalf("got %+v", calls)
	}
	for i, odd := range []string{"x;touch$IFS/tmp/pwned;#", "a\nb\x1b[31m"} {
		if c := calls[i]; !strings.HasPrefix(string(c.ID), "call_") || c.ProviderCallID != odd {
			t.Errorf("got id %q, the provider's %q, want a minted one and %q", c.ID, c.ProviderCallID, odd)
		}
	}
}

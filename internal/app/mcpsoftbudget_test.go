package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// TestSoftBudgetsOfServers: mcp.json sets the soft budget of a server's tools, and of single ones.
func TestSoftBudgetsOfServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `{"mcpServers": {"build": {"command": "x", "soft_budget": "45s",
		"soft_budgets": {"slow": "none", "quick": 2.5}, "agents": ["ask*"]}}}`
	if err := os.WriteFile(filepath.Join(dir, mcpFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home, err := readMCPConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	of := home.Servers["build"]
	server, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "build", Agents: of.Agents, SoftBudget: time.Duration(of.SoftBudget), SoftBudgets: of.softBudgets(),
		Definitions: []*sdk.Tool{{Name: "any"}, {Name: "slow"}, {Name: "quick"}, {Name: "ask_one"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]time.Duration{"build__any": 45 * time.Second, "build__slow": tool.Never,
		"build__quick": 2500 * time.Millisecond, "build__ask_one": tool.Never}
	for _, one := range server.Tools() {
		if spec := one.Spec(); spec.SoftBudget != want[spec.Name] {
			t.Errorf("%s: got %v, want %v", spec.Name, spec.SoftBudget, want[spec.Name])
		}
		if err := tool.NewRegistry(one).Err(); err != nil {
			t.Error(err)
		}
	}
}

// TestWrongSoftBudgets: each text says what is allowed.
func TestWrongSoftBudgets(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{`0`, `-1`, `"never"`, `"2h"`, `7200`, `true`, `{}`, `""`, `1e300`} {
		var b softBudget
		if err := b.UnmarshalJSON([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "or none") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

// FuzzSoftBudget: whatever a file says, a soft budget is none or within the deadline of calls.
func FuzzSoftBudget(f *testing.F) {
	for _, seed := range []string{`30`, `"30s"`, `"none"`, `-1`, `1e308`, `"`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b softBudget
		err := b.UnmarshalJSON([]byte(text))
		d := time.Duration(b)
		if err == nil && d != tool.Never && (d <= 0 || d >= tool.DefaultDeadline) {
			t.Errorf("%q: %v", text, d)
		}
		_ = perdure.DecodeJSON([]byte(text), &b)
	})
}

package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// readers read blocks of JSON and YAML as the program does, by the page that they stand on.
func readers(t *testing.T) map[string]func(text string) error {
	script := func(text string) error { _, err := scripted.Parse("page", []byte(text)); return err }
	return map[string]func(text string) error{
		"docs/reference/scripted-model.md": script,
		"docs/how-to/subagents.md":         script,
		"docs/reference/configuration.md":  func(text string) error { return checkConfig(t, text) },
		"docs/reference/cli.md":            func(text string) error { return checkConfig(t, text) },
		"docs/how-to/connect-accounts.md":  readsCredentials,
		"docs/how-to/open-one-host.md":     func(text string) error { return fromYAML(text, &agent.Overlay{}) },
		"docs/how-to/chaos.md":             func(text string) error { return perdure.DecodeJSON([]byte(text), &chaos.Line{}) },
		"docs/reference/images.md":         func(text string) error { return perdure.DecodeJSON([]byte(text), &perdure.Part{}) },
		"docs/how-to/operate.md":           func(text string) error { return knowsMetrics(t, text) },
	}
}

// readsCredentials reads an oauth.json, the arguments of web_fetch, or an agent with permissions.
func readsCredentials(text string) error {
	var providers connection.Providers
	asProviders := perdure.DecodeJSON([]byte(text), &providers)
	if asProviders == nil {
		return providers.Check()
	}
	var asCall error
	if fault := tool.NewRegistry(web.WebFetch()).Validate("web_fetch", json.RawMessage(text)); fault != nil {
		asCall = errors.New(fault.Text)
	}
	var named struct {
		Name          string `json:"name"`
		agent.Overlay `yaml:",inline"`
	}
	asAgent := fromYAML(text, &named)
	if asAgent == nil {
		asAgent = named.Check()
	}
	if asCall == nil || asAgent == nil {
		return nil
	}
	return errors.Join(asProviders, asCall, asAgent)
}

// elsewhere are pages whose blocks another test reads as the program does: what a server is sent,
// mcp.json, payments.json and prices. The files of other programs, and what a page only shows, are
// read as their language.
const elsewhere = "docs/reference/api.md docs/how-to/mcp.md docs/how-to/let-tools-pay.md docs/reference/budgets.md docs/how-to/observe.md docs/reference/events.md docs/how-to/long-tools.md"

// TestConfigurations: what a page says to write is what the program reads.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	known, read := readers(t), 0
	for name, text := range pages(t) {
		for _, block := range slices.Concat(blocks(text, "json"), blocks(text, "yaml")) {
			reads := known[name]
			if reads == nil {
				if !slices.Contains(strings.Fields(elsewhere), name) {
					t.Errorf("%s: who reads this? Add it to readers:\n%s", name, block)
				}
				continue
			}
			read++
			if err := reads(block); err != nil {
				t.Errorf("%s: %v:\n%s", name, err, block)
			}
		}
	}
	if read < len(known) {
		t.Errorf("only %d blocks were read", read)
	}
}

// TestConfigurationsAreRead: a word that the program does not know is seen, on every page.
func TestConfigurationsAreRead(t *testing.T) {
	t.Parallel()
	for name, read := range readers(t) {
		for _, broken := range []string{"{\"no_such_word\": 1}", "{", "expr: perdure_no_such_metric > 0\n"} {
			if read(broken) == nil {
				t.Errorf("%s: %s is taken", name, broken)
			}
		}
	}
}

// fromYAML decodes as strictly as what comes as JSON.
func fromYAML(text string, into any) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return perdure.DecodeJSON(asJSON, into)
}

// checkConfig is perdure config check, of a user who has this file.
func checkConfig(t *testing.T, text string) error {
	t.Helper()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "perdure"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, "perdure/config.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	var out, talk bytes.Buffer
	world := cli.Dependencies{
		Args: []string{"config", "check"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk,
		Log: func(cli.LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) },
		Env: func(name string) string { return map[string]string{"XDG_CONFIG_HOME": home}[name] },
	}
	if code := cli.Main(context.Background(), world); code != 0 {
		return fmt.Errorf("config check ends with %d: %s%s", code, out.String(), talk.String())
	}
	return nil
}

// knowsMetrics wants the metrics of rules among those that a server has.
func knowsMetrics(t *testing.T, text string) error {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	page := read(t, "docs/reference/metrics.md")
	found := regexp.MustCompile(`\b(?:perdure|http|gen_ai)_[a-z_]+\b`).FindAllString(regexp.MustCompile(`\{.*?\}|"[^"]*"`).ReplaceAllString(expressions(text), ""), -1)
	if len(found) == 0 {
		return fmt.Errorf("no rule has a metric")
	}
	for _, name := range found {
		if !strings.Contains(page, "`"+regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")+"`") {
			return fmt.Errorf("metrics.md has no %s", name)
		}
	}
	return nil
}

// expressions are those of alerting rules, a line each.
func expressions(text string) string {
	return strings.Join(regexp.MustCompile(`(?m)expr: (.*)$`).FindAllString(text, -1), "\n")
}

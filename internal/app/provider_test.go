//go:build linux

package app

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// reportScript is the agent of the README, as a model behind a server.
func reportScript(t *testing.T) *scripted.Model {
	t.Helper()
	m, err := scripted.Load(filepath.Join("..", "..", "examples", "scripts", "repo-report.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestReportOverProviders runs the example of the README against servers that speak the protocols
// of the providers, over HTTP, with a key, and with a kill in between. The report is the same.
func TestReportOverProviders(t *testing.T) {
	t.Parallel()
	files := map[string]string{"go.mod": "module example.com/small\n", "README.md": "# Small\n"}
	for i := range 12 {
		files[fmt.Sprintf("part%d/part.go", i)] = strings.Repeat("// one line\n", i+1)
	}
	for name, c := range map[string]struct {
		variable string
		path     string
		serve    func(m model.Model) http.Handler
	}{
		"openai": {"OPENAI_API_KEY", "/v1", func(m model.Model) http.Handler {
			return openaitest.New(m, openaitest.Config{Key: "k-secret"})
		}},
		"anthropic": {"ANTHROPIC_API_KEY", "", func(m model.Model) http.Handler {
			return anthropictest.New(m, anthropictest.Config{Key: "k-secret"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.serve(reportScript(t)))
			t.Cleanup(server.Close)
			report := func(kill bool) string {
				p := newPlace(t, files)
				p.env = []string{c.variable + "=k-secret"}
				return p.report(kill, "run", "--allow-shell", "--workspace", p.work, "--model", name+":clever", "--base-url", server.URL+c.path,
					"report on this repository")
			}

			whole, interrupted := bothReports(report)

			if whole != interrupted || !strings.Contains(whole, "module example.com/small") || !strings.Contains(whole, "78 lines in all") {
				t.Errorf("without a kill:\n%s\nwith one:\n%s", whole, interrupted)
			}
		})
	}
}

// TestLogsHideKeys searches the log for a key: under any name, in an error, and in base64 (RD5,
// C21).
func TestLogsHideKeys(t *testing.T) {
	t.Parallel()
	const key = "sk-a-key-that-nobody-may-see-1234567890"
	var out bytes.Buffer
	const password = "correct-horse-battery"
	secrets := secretsOf(func(name string) string {
		return map[string]string{openaiKey: key, "PERDURE_DATABASE": "postgres://u:" + password + "@db/name"}[name]
	})
	log := newLog(&out, cli.LogStyle{Verbose: true}, false, secrets)

	log.Error("asked "+key+" and "+password, "error", errors.New("401 for "+key), "sent", base64.StdEncoding.EncodeToString([]byte("Bearer "+key)))

	if text := out.String(); strings.Contains(text, key) || strings.Contains(text, password) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("Bearer "+key))) || !strings.Contains(text, redact.Mark) {
		t.Errorf("logged %s", text)
	}
}

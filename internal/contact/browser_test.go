//go:build contact

package contact

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// page is what the browser opens.
const page = `<!doctype html><title>Contact</title><body style="background:#135"><h1>A page of our own</h1><button>Press</button>`

// TestBrowsers lets two MCP servers show a page in Chromium: the model reads its text, and sees a
// picture of it.
func TestBrowsers(t *testing.T) {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(local.Close)
	for _, p := range browserPeers(t, local.URL) {
		t.Run(p.name, func(t *testing.T) { tryPeer(t, p) })
	}
}

// browserPeers are the servers. Both start Debian's Chromium without its sandbox, which root needs.
func browserPeers(t *testing.T, url string) []peer {
	t.Helper()
	browser := chromium(t)
	quiet := []string{"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"}
	return []peer{
		{name: "playwright", module: "@playwright/mcp", script: "cli.js",
			args: func(h *home) []string {
				return []string{"--headless", "--isolated", "--no-sandbox", "--browser", "chromium", "--executable-path", browser, "--viewport-size", "640x480",
					"--output-dir", filepath.Join(h.dir, "pictures")}
			},
			calls: func(*home) []expected {
				return []expected{
					{tool: "browser_navigate", args: map[string]any{"url": url}, text: "Contact"},
					{tool: "browser_snapshot", args: map[string]any{}, text: "A page of our own"},
					{tool: "browser_take_screenshot", args: map[string]any{}, picture: "image/png"},
				}
			}},
		{name: "devtools", module: "chrome-devtools-mcp", script: "build/src/bin/chrome-devtools-mcp.js",
			args: func(*home) []string {
				words := []string{"--headless", "--isolated", "--executablePath", browser, "--viewport", "640x480", "--no-usage-statistics", "--chromeArg=--no-sandbox"}
				for _, word := range quiet {
					words = append(words, "--chromeArg="+word)
				}
				return words
			},
			env: func(*home) map[string]string { return map[string]string{"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"} },
			calls: func(*home) []expected {
				return []expected{ // page 1 is an empty one
					{tool: "new_page", args: map[string]any{"url": url}, text: url},
					{tool: "take_snapshot", args: map[string]any{"pageId": 2}, text: "A page of our own"},
					{tool: "take_screenshot", args: map[string]any{"pageId": 2}, picture: "image/png"},
				}
			}},
	}
}

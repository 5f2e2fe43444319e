package mcptool

import (
	"strings"
	"testing"
)

// TestRefusals: which responses say that a request did not run, and which that the session is lost.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		status       int
		body         string
		want         string // ran, refused or lost
	}{
		{"no session", "punkpeye/mcp-remote#106", 404, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, "lost"},
		{"no session, with an id", "several reports", 404, `{"jsonrpc":"2.0","id":"x","error":{"code":-32001,"message":"unknown session"}}`, "lost"},
		{"a plain text", "modelcontextprotocol/rust-sdk#733", 404, "Not Found: Session not found", "lost"},
		{"an unknown header", "diegosouzapw/OmniRoute#5957", 404, `{"error":{"code":-32000,"message":"Not Found: Unknown Mcp-Session-Id header"}}`, "lost"},
		{"nothing", "", 404, "", "lost"},
		{"gone", "", 410, "", "lost"},
		{"no valid session", "samanhappy/mcphub#405", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, "lost"},
		{"or no initialize", "DAWNCR0W/affine-mcp-server#301", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID or not an initialize request"},"id":null}`, "lost"},
		{"not initialized", "samanhappy/mcphub#427", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`, "lost"},
		{"an invalid id", "mark3labs/mcp-go#689", 400, "Invalid session ID", "lost"},
		{"unauthorized", "modelcontextprotocol/rust-sdk#559", 401, "Unauthorized: Session not found", "lost"},
		{"unavailable", "markmhendrickson/neotoma#1923", 503, `{"error":"Unknown or expired session"}`, "lost"},
		{"a gateway quotes it", "punkpeye/fastmcp#121", 500, `{"error":"Error POSTing to endpoint (HTTP 400): {\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session ID provided\"},\"id\":null}"}`, "lost"},
		{"a method is unknown", "", 404, `{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Method not found"}}`, "refused"},
		{"a token is missing", "", 401, `{"error":"invalid_token","error_description":"The access token expired"}`, "refused"},
		{"forbidden", "", 403, "<html><head><title>403 Forbidden</title></head></html>", "refused"},
		{"another method of HTTP", "", 405, "", "refused"},
		{"not acceptable", "", 406, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Not Acceptable: Client must accept both application/json and text/event-stream"},"id":null}`, "refused"},
		{"too large", "", 413, "", "refused"},
		{"another type", "", 415, "", "refused"},
		{"too many", "", 429, "", "refused"},
		{"a bad request", "", 400, "Bad Request: Unsupported protocol version", "refused"},
		{"no server behind the gateway", "", 503, "no healthy upstream", "refused"},
		{"it starts", "", 503, `{"error":"the server is starting, try again"}`, "refused"},
		{"a gateway lost it", "", 503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", "ran"},
		{"unavailable without a word", "", 503, "Service Unavailable", "ran"},
		{"a bad request without a word", "", 400, "", "ran"},
		{"a timeout", "", 408, "Request Timeout: no valid session ID", "ran"},
		{"a conflict", "", 409, "", "ran"},
		{"a bare 500", "", 500, "Internal Server Error", "ran"},
		{"a session of something else", "", 500, "the database session was closed", "ran"},
		{"a bad gateway", "", 502, "<html>502 Bad Gateway</html>", "ran"},
		{"a gateway timeout", "", 504, "", "ran"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, without := refusalOf(c.status, []byte(c.body), true), refusalOf(c.status, []byte(c.body), false)

			got := "ran"
			if r != nil {
				got = "refused"
				if r.lost {
					got = "lost"
				}
			}
			if got != c.want {
				t.Errorf("%d %q: got %s, want %s", c.status, c.body, got, c.want)
			}
			if without != nil && without.lost {
				t.Error("a session is lost without one")
			}
			if r != nil && (strings.Contains(r.why, "<") || !strings.HasPrefix(r.why, "HTTP ")) {
				t.Errorf("it says %q", r.why)
			}
		})
	}
}

// FuzzRefusal: no body of a response stops the reading of it.
func FuzzRefusal(f *testing.F) {
	f.Add(404, []byte(`{"error":{"message":"x"}}`))
	f.Add(503, []byte("<html>\xff"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if r := refusalOf(status, body, true); r != nil && r.why == "" {
			t.Errorf("%d %q is refused without a word", status, body)
		}
	})
}

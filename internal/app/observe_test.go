package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
)

// collecting is a collector of spans on this machine.
type collecting struct {
	*httptest.Server
	asked atomic.Int32 // requests

	mu  sync.Mutex
	got bytes.Buffer // guarded by mu; the bodies
}

func newCollecting(t *testing.T) *collecting {
	t.Helper()
	c := &collecting{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("got %s with %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		_, _ = c.got.ReadFrom(body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// has reports whether the collector received some bytes.
func (c *collecting) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.got.Bytes(), []byte(text))
}

// serving is a server in this process.
type serving struct {
	t          *testing.T
	url, token string
	log        *bytes.Buffer // read when it has ended
	end        func()
}

func startServing(t *testing.T, s cli.ServeOptions) *serving {
	t.Helper()
	up := &serving{t: t, log: &bytes.Buffer{}}
	s.Dir, s.Addr, s.SampleStores = t.TempDir(), "127.0.0.1:0", redact.NewSet()
	s.Log = newLog(up.log, cli.LogStyle{Verbose: true}, false, s.SampleStores)
	ready := make(chan cli.ServerInfo, 1)
	s.Ready = func(served cli.ServerInfo) { ready <- served }
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Program{}.serve(ctx, s) }()
	up.end = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(up.end)
	select {
	case served := <-ready:
		token, err := os.ReadFile(served.TokenFile)
		if err != nil {
			t.Fatal(err)
		}
		up.url, up.token = served.URL, strings.TrimSpace(string(token))
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return up
}

// ask sends a request with the token and returns the body of the response, whose status must be
// below 300.
func (s *serving) ask(method, path, body string, header ...string) []byte {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
	}
	return text
}

// converse starts a session and waits for the end of its turn.
func (s *serving) converse(header ...string) (session string) {
	s.t.Helper()
	script := filepath.Join(s.t.TempDir(), "agent.yaml")
	if err := os.WriteFile(script, []byte("steps: [{text: canary-said}]"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var made struct{ ID string }
	text := s.ask("POST", "/v1/sessions", fmt.Sprintf(`{"agent":{"name":"clerk","model":"scripted:%s"}}`, script))
	if err := json.Unmarshal(text, &made); err != nil {
		s.t.Fatal(err)
	}
	s.ask("POST", "/v1/sessions/"+made.ID+"/messages", `{"content":[{"type":"text","text":"canary-asked"}]}`, header...)
	s.ask("GET", "/v1/sessions/"+made.ID+"?wait=30s", "")
	return made.ID
}

// TestTelemetryServed lets a server send its spans to a collector: the span of a request, and of
// the turn that it causes, in the trace of the caller, without contents. Log lines have the trace
// id, and /metrics can be read.
func TestTelemetryServed(t *testing.T) {
	t.Parallel()
	const caller = "0af7651916cd43dd8448eb211c80319c"
	c := newCollecting(t)
	s := startServing(t, cli.ServeOptions{Traces: c.URL})
	session := s.converse("traceparent", "00-"+caller+"-b7ad6b7169203331-01", "X-Request-Id", "req-of-mine")
	figures := s.ask("GET", "/metrics", "")
	s.end()

	id, err := hex.DecodeString(caller)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(id), "invoke_agent clerk", "chat agent.yaml", "commit", "POST /v1/sessions/{id}/messages", "req-of-mine", session} {
		if !c.has(text) {
			t.Errorf("the collector did not get %q", text)
		}
	}
	if c.has("canary") {
		t.Error("the collector got what was said")
	}
	line := ""
	for text := range strings.Lines(s.log.String()) {
		if strings.Contains(text, "req-of-mine") {
			line = text
		}
	}
	if !strings.Contains(line, `"trace_id":"`+caller+`"`) {
		t.Errorf("the log line of the request names no trace: %q", line)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(figures))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"perdure_turn_duration_seconds", "perdure_store_commit_duration_seconds", "http_server_request_duration_seconds",
		"gen_ai_client_operation_duration_seconds", "perdure_tasks_live", "perdure_approvals_waiting", "target_info"} {
		if families[name] == nil {
			t.Errorf("/metrics has no %s", name)
		}
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if strings.Contains(label.GetValue(), session) {
					t.Errorf("%s has an id as label: %s=%s", name, label.GetName(), label.GetValue())
				}
			}
		}
	}
}

// TestTelemetryStranger: an unauthorized client creates no span, whatever its trace, but the
// refusal is logged.
func TestTelemetryStranger(t *testing.T) {
	t.Parallel()
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	c := newCollecting(t)
	s := startServing(t, cli.ServeOptions{Traces: c.URL})
	for _, header := range []string{"Bearer wrong", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		req.Header.Set("Traceparent", "00-"+caller+"-b7ad6b7169203331-01")
		req.Header.Set("X-Request-Id", "req-of-stranger")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: got %d", header, res.StatusCode)
		}
	}
	s.converse()
	s.end()

	id, err := hex.DecodeString(caller)
	if err != nil {
		t.Fatal(err)
	}
	if c.has(string(id)) || c.has("req-of-stranger") || !c.has("POST /v1/sessions") {
		t.Error("the collector got the span of a stranger, or none of others")
	}
	if !strings.Contains(s.log.String(), "req-of-stranger") || strings.Contains(s.log.String(), caller) {
		t.Error("the log does not have the refusal, or has its trace")
	}
}

// TestTelemetryContent exports contents if enabled.
func TestTelemetryContent(t *testing.T) {
	t.Parallel()
	c := newCollecting(t)
	s := startServing(t, cli.ServeOptions{Traces: c.URL, TraceContent: true})
	s.converse()
	s.end()

	if !c.has("canary-asked") || !c.has("canary-said") {
		t.Error("the collector did not get what was said")
	}
}

// TestTelemetryNowhere configures no collector: no exporter is created.
func TestTelemetryNowhere(t *testing.T) {
	t.Parallel()
	told, err := observe(t.Context(), cli.ServeOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer told.close(time.Second)
	if told.traces != nil || told.engine.Traces != nil || told.page == nil {
		t.Errorf("got %+v", told)
	}
}

// TestTelemetryVariables reads the variables of OpenTelemetry.
func TestTelemetryVariables(t *testing.T) {
	c := newCollecting(t)
	s := cli.ServeOptions{Log: slog.New(slog.DiscardHandler), Traces: c.URL}
	for _, law := range []struct {
		name, value  string
		sends, fails bool
	}{
		{otelDisabled, "true", false, false},
		{otelDisabled, "false", true, false},
		{otelExporter, "none", false, false},
		{otelExporter, "zipkin", false, true},
		{otelProtocol, "grpc", false, true},
		{otelTracesURL, c.URL + "/v1/traces", true, false},
		{otelTracesURL, "://", false, true},
	} {
		t.Run(law.name+"="+law.value, func(t *testing.T) {
			t.Setenv(law.name, law.value)
			told, err := observe(t.Context(), s)
			if (err != nil) != law.fails || (told.traces != nil) != law.sends && err == nil {
				t.Errorf("sends %t, error %v", told.traces != nil, err)
			}
			_ = told.close(time.Second)
		})
	}
	if n := c.asked.Load(); n > 0 {
		t.Errorf("the collector was asked %d times for nothing", n)
	}
}

// TestSpreadSampler samples turns, whose ids differ in few of the bits that samplers use.
func TestSpreadSampler(t *testing.T) {
	t.Parallel()
	sampler, err := newSampler("parentbased_traceidratio", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for n := range 10_000 {
		id := [16]byte{0x01, 0x9a, 0, 0, 0, 0, 0x70, 0, 0x80, 15: 1}
		id[8], id[9], id[10] = 0x80|byte(n>>8), byte(n), byte(n>>3)
		if sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: id}).Decision == sdktrace.RecordAndSample {
			taken++
		}
	}
	if taken < 800 || taken > 1200 {
		t.Errorf("took %d of 10000, want about 1000", taken)
	}
	if _, err := newSampler("traceidratio", "half"); err == nil {
		t.Error("half is a number")
	}
}

package anthropictest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/scripted"
)

// serve starts a server that answers with r.
func serve(t *testing.T, r scripted.Reply, cfg anthropictest.Config) (*anthropictest.Server, string) {
	t.Helper()
	m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: r, Repeat: true}}})
	if err != nil {
		t.Fatal(err)
	}
	own := anthropictest.New(m, cfg)
	server := httptest.NewServer(own)
	t.Cleanup(server.Close)
	return own, server.URL
}

// post sends a request by hand and returns status, body, and how the body ended.
func post(t *testing.T, url, key, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// names returns the names of the events.
func names(stream string) []string {
	var all []string
	lines := bufio.NewScanner(strings.NewReader(stream))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok && name != "ping" {
			all = append(all, name)
		}
	}
	return all
}

const plain = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`

// TestStream: the events stand in the order of the documentation.
func TestStream(t *testing.T) {
	t.Parallel()
	server, url := serve(t, scripted.Reply{
		Thinking: "Hm.", Signature: "c2ln", Text: "A longer text.", Calls: []scripted.Call{{Name: "pay"}},
	}, anthropictest.Config{})

	status, stream, err := post(t, url, "", plain)

	want := strings.Fields(`message_start
		content_block_start content_block_delta content_block_delta content_block_stop
		content_block_start content_block_delta content_block_delta content_block_stop
		content_block_start content_block_delta content_block_delta content_block_stop
		message_delta message_stop`)
	if diff := cmp.Diff(want, names(stream)); diff != "" || status != http.StatusOK || err != nil {
		t.Errorf("got status %d, error %v, events (-want +got):\n%s", status, err, diff)
	}
	if got, want := server.Events(), strings.Count(stream, "event: "); !slices.Equal(got, []int{want}) {
		t.Errorf("got events %v, want one request with %d", got, want)
	}
	if !strings.Contains(stream, "event: ping") || !strings.Contains(stream, `"id":"toolu_`) {
		t.Errorf("got a stream without a ping, or a call without an id:\n%s", stream)
	}
}

// TestDuplicate: these events come twice, and the others once.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	_, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{Duplicate: true})

	_, stream, _ := post(t, url, "", plain)

	want := strings.Fields(`message_start message_start content_block_start content_block_start content_block_delta
		content_block_stop content_block_stop message_delta message_delta message_stop`)
	if diff := cmp.Diff(want, names(stream)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCut: each request breaks where Cut says, and the others stay whole.
func TestCut(t *testing.T) {
	t.Parallel()
	whole := func() string {
		_, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{})
		_, stream, _ := post(t, url, "", plain)
		return stream
	}()
	var asked []int
	server, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{Cut: func(request int) (int, bool, bool) {
		asked = append(asked, request)
		return 2, request == 2, request < 3
	}})

	first := bytes.SplitAfterN([]byte(whole), []byte("\n\n"), 4)
	_, clean, cleanErr := post(t, url, "", plain)
	_, half, halfErr := post(t, url, "", plain)
	half = strings.Replace(half, "msg_test000002", "msg_test000001", 1)
	_, last, lastErr := post(t, url, "", plain)

	two := string(first[0]) + string(first[1])
	if clean != two || !errors.Is(cleanErr, io.ErrUnexpectedEOF) {
		t.Errorf("got %q and %v, want %q and a broken connection", clean, cleanErr, two)
	}
	if want := two + string(first[2][:len(first[2])/2]); half != want || !errors.Is(halfErr, io.ErrUnexpectedEOF) {
		t.Errorf("got %q and %v, want %q and a broken connection", half, halfErr, want)
	}
	if len(names(last)) != len(names(whole)) || lastErr != nil {
		t.Errorf("got %q and %v, want the whole", last, lastErr)
	}
	if want := []int{2, 2, strings.Count(whole, "event: ")}; !slices.Equal(server.Events(), want) || !slices.Equal(asked, []int{1, 2, 3}) {
		t.Errorf("got events %v and asked %v, want %v and 1 2 3", server.Events(), asked, want)
	}
}

// TestConcurrent: requests at the same time are each counted once.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	server, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{Cut: func(int) (int, bool, bool) { return 100, false, true }})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if status, stream, err := post(t, url, "", plain); status != http.StatusOK || !strings.Contains(stream, "message_stop") || err != nil {
				t.Errorf("got status %d, %q, %v", status, stream, err)
			}
		})
	}
	all.Wait()
	if got := server.Events(); len(got) != 16 || slices.Min(got) != slices.Max(got) {
		t.Errorf("got events %v, want 16 times the same", got)
	}
}

// TestModelFails: an error before the first word is a status, one after it an event; a cut is a
// cut.
func TestModelFails(t *testing.T) {
	t.Parallel()
	six := 6
	failure := func(after *int) scripted.Reply {
		r := scripted.Reply{Error: &scripted.Failure{Code: model.Unavailable, Text: "busy", AfterBytes: after}}
		if after != nil {
			r.Text = "Certainly."
		}
		return r
	}
	_, url := serve(t, failure(nil), anthropictest.Config{})
	if status, body, _ := post(t, url, "", plain); status != 529 || !strings.Contains(body, `"overloaded_error"`) {
		t.Errorf("got status %d: %s", status, body)
	}
	_, url = serve(t, failure(&six), anthropictest.Config{})
	if status, body, err := post(t, url, "", plain); status != 200 || err != nil || !strings.Contains(body, "event: error") || strings.Contains(body, "message_stop") {
		t.Errorf("got status %d, error %v: %s", status, err, body)
	}
	_, url = serve(t, scripted.Reply{Text: "Certainly.", CutAfterBytes: &six}, anthropictest.Config{})
	if _, body, err := post(t, url, "", plain); !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(body, "message_stop") {
		t.Errorf("got error %v: %s", err, body)
	}
}

// TestMalformed: what the provider refuses is refused, with words that say where.
func TestMalformed(t *testing.T) {
	t.Parallel()
	const (
		head = `{"model":"m","max_tokens":2000,"stream":true,`
		hi   = `{"role":"user","content":"Hi"}`
		call = `{"type":"tool_use","id":"a","name":"pay","input":{}}`
		done = `{"type":"tool_result","tool_use_id":"a","content":"ok"}`
	)
	chat := func(turns ...string) string { return head + `"messages":[` + strings.Join(turns, ",") + `]}` }
	user := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	agent := func(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	tests := map[string]struct{ body, want string }{
		"no JSON":               {`{`, "JSON"},
		"an unknown field":      {head + `"messages":[` + hi + `],"max_token":1}`, "max_token"},
		"no max_tokens":         {`{"model":"m","stream":true,"messages":[` + hi + `]}`, "max_tokens"},
		"no model":              {`{"max_tokens":9,"stream":true,"messages":[` + hi + `]}`, "model"},
		"no messages":           {chat(), "at least one"},
		"no stream":             {`{"model":"m","max_tokens":9,"messages":[` + hi + `]}`, "stream"},
		"agent first":           {chat(agent(text("x")), hi), "first message"},
		"two users":             {chat(hi, hi), "alternate"},
		"a prefill":             {chat(hi, agent(text("x"))), "prefill"},
		"a role of ours":        {chat(`{"role":"system","content":"x"}`), "role"},
		"an empty message":      {chat(user(``)), "non-empty"},
		"an empty text":         {chat(user(text(""))), "non-whitespace"},
		"a blank text":          {chat(user(text("   "))), "non-whitespace"},
		"a call of a user":      {chat(user(call)), "tag"},
		"no result":             {chat(hi, agent(call), hi), "without `tool_result`"},
		"a late result":         {chat(hi, agent(call), user(text("x")+","+done)), "without `tool_result`"},
		"a result alone":        {chat(user(done)), "unexpected"},
		"two results":           {chat(hi, agent(call), user(done+","+done)), "single result"},
		"an id twice":           {chat(hi, agent(call), user(done), agent(call), user(done)), "unique"},
		"a bad id":              {chat(hi, agent(strings.Replace(call, `"a"`, `"a.b"`, 1)), user(done)), "pattern"},
		"a bad name":            {chat(hi, agent(strings.Replace(call, `"pay"`, `"p.y"`, 1)), user(done)), "pattern"},
		"input of a list":       {chat(hi, agent(strings.Replace(call, `{}`, `[]`, 1)), user(done)), "dictionary"},
		"an error of no words":  {chat(hi, agent(call), user(`{"type":"tool_result","tool_use_id":"a","is_error":true}`)), "is_error"},
		"an empty result text":  {chat(hi, agent(call), user(strings.Replace(done, `ok`, ``, 1))), "non-whitespace"},
		"thinking unsigned":     {chat(hi, agent(`{"type":"thinking","thinking":"x"},`+text("y")), hi), "signature"},
		"thinking last":         {chat(hi, agent(`{"type":"thinking","thinking":"x","signature":"s"}`), hi), "final block"},
		"a picture of text":     {chat(user(`{"type":"image","source":{"type":"base64","media_type":"text/plain","data":"eA=="}}`)), "media_type"},
		"a picture of nothing":  {chat(user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%"}}`)), "base64"},
		"a schema of no object": {head + `"messages":[` + hi + `],"tools":[{"name":"pay","input_schema":{}}]}`, "tools.0.custom.input_schema"},
		"a tool twice":          {head + `"messages":[` + hi + `],"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]}`, "unique"},
		"a small budget":        {head + `"messages":[` + hi + `],"thinking":{"type":"enabled","budget_tokens":9}}`, "budget_tokens"},
		"a large budget":        {head + `"messages":[` + hi + `],"thinking":{"type":"enabled","budget_tokens":2000}}`, "max_tokens"},
		"a step not thought": {head + `"messages":[` + hi + `,` + agent(call) + `,` + user(done) + `],"thinking":{"type":"enabled","budget_tokens":1024}}`,
			"must start with a thinking block"},
		"too many marks": {chat(user(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) +
			`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`)), "cache_control"},
	}
	server, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{})
	t.Cleanup(func() {
		if got := server.Events(); len(got) != len(tests) || slices.Max(got) != 0 {
			t.Errorf("got events %v, want none for each of %d refused requests", got, len(tests))
		}
	})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, _ := post(t, url, "", test.body)
			if status != http.StatusBadRequest || !strings.Contains(body, test.want) || !strings.Contains(body, "invalid_request_error") {
				t.Errorf("got status %d: %s, want 400 and %q", status, body, test.want)
			}
		})
	}
}

// TestKey: only the key of the configuration opens.
func TestKey(t *testing.T) {
	t.Parallel()
	_, url := serve(t, scripted.Reply{Text: "Yes."}, anthropictest.Config{Key: "right"})
	if status, body, _ := post(t, url, "wrong", plain); status != http.StatusUnauthorized || !strings.Contains(body, "authentication_error") {
		t.Errorf("got status %d: %s", status, body)
	}
	if status, body, _ := post(t, url, "right", plain); status != http.StatusOK {
		t.Errorf("got status %d: %s", status, body)
	}
	res, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("got status %d for another path", res.StatusCode)
	}
}

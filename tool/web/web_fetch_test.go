package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// answer is what the server of these tests says at a path.
type answer struct {
	status      int    // 0: 200
	contentType string // empty: none is sent
	body        string
}

// answers are the pages of the server, by path.
func answers() map[string]answer {
	const html, latin = "text/html; charset=utf-8", "text/html; charset=ISO-8859-1"
	return map[string]answer{
		"/page":      {0, html, `<title> A  &amp; B </title><h1>Hi</h1><p>See <a href="next?q=1">there</a>.<script>no()</script>`},
		"/missing":   {404, html, `<title>Gone</title><p>Nothing here.`},
		"/broken":    {500, "text/plain", "out of order"},
		"/json":      {0, "application/json", `{"a": [1, 2]}`},
		"/problem":   {0, "application/problem+json", `{}`},
		"/lines":     {0, "text/plain", "a\r\nb\rc"},
		"/png":       {0, "image/png", "\x89PNG\r\n\x1a\n\x00"},
		"/svg":       {0, "image/svg+xml", "<svg/>"},
		"/pdf":       {0, "application/pdf", "%PDF-1.7 \x00\x01"},
		"/liar":      {0, "text/plain", "a\x00b"},
		"/untyped":   {0, "", "plain words"},
		"/unknown":   {0, "application/octet-stream", "PK\x03\x04\x00\x00"},
		"/textless":  {0, "application/octet-stream", "words after all"},
		"/badtype":   {0, "///;;", "<!doctype html><title>T</title><p>Sniffed"},
		"/latin":     {0, latin, "<p>Gr\xfc\xdfe \x80\x93"},
		"/meta":      {0, "text/html", `<meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>caf` + "\xe9"},
		"/meta5":     {0, "text/html", `<meta charset=utf-16><p>caf` + "\xc3\xa9"},
		"/guess":     {0, "text/html", "<p>caf\xe9"},
		"/bom":       {0, latin, "\xef\xbb\xbf<p>caf\xc3\xa9"},
		"/utf16":     {0, "text/plain", "\xff\xfea\x00\xe9\x00=\xd8\x00\xde"},
		"/utf16be":   {0, "text/plain; charset=utf-16be", "\x00a\x00\xe9"},
		"/sjis":      {0, "text/html; charset=Shift_JIS", "<p>\x93\xfa\x96\x7b"},
		"/sjisascii": {0, "text/html; charset=Shift_JIS", "<p>plain"},
		"/jis":       {0, "text/plain; charset=iso-2022-jp", "\x1b$BF|\x1b(B"},
		"/invalid":   {0, html, "<p>a\xffb\x00c"},
		"/empty":     {204, "", ""},
		"/cut":       {0, "text/plain; charset=utf-8", strings.Repeat("é", 1<<20)},
		"/deep":      {0, html, "<title>Deep</title>" + strings.Repeat("<div>", 100_000) + "bottom"},
		"/wide":      {0, html, "<table>" + strings.Repeat("<td>", 20_000) + strings.Repeat("<tr><td>x", 20_000)},
	}
}

// serve starts a server with the answers, and a way out to it that needs no purpose.
func serve(t *testing.T) (string, tool.Env) {
	t.Helper()
	pages := answers()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a, ok := pages[r.URL.Path]
		if !ok {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header()["Content-Type"] = nil // none but ours
		if a.contentType != "" {
			w.Header().Set("Content-Type", a.contentType)
		}
		w.WriteHeader(max(a.status, 200*count(a.status == 0)))
		if _, err := w.Write([]byte(a.body)); err != nil && a.status != 204 && r.Method != http.MethodHead {
			t.Log(err) // a body that is cut is not read to its end
		}
	})
	mux.Handle("/from", http.RedirectHandler("/page", http.StatusFound))
	mux.Handle("/inward", http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	mux.Handle("/elsewhere", http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	mux.HandleFunc("/asked", func(w http.ResponseWriter, r *http.Request) {
		text := r.Method + " " + r.Header.Get("Accept-Language") + " " + strconv.FormatBool(strings.HasPrefix(r.Header.Get("Accept"), "text/html"))
		w.Header().Set("Content-Type", "text/plain")
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/zipped", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		zip := gzip.NewWriter(&body)
		if _, err := zip.Write([]byte("unpacked")); err != nil || zip.Close() != nil {
			t.Error("gzip failed")
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		if _, err := w.Write(body.Bytes()); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/brotli", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "br")
		if _, err := w.Write([]byte("\x0b\x02\x80hello\x03")); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, tool.Env{Egress: guard(t, "", server.URL), Locale: "de-DE"}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// fetched is the result of web_fetch as a model reads it.
type fetched struct {
	URL         string `json:"url"`
	FinalURL    string `json:"final_url"`
	StatusCode  int    `json:"status_code"`
	ContentType string `json:"content_type"`
	Title       string `json:"title"`
	Content     string `json:"content"`
	Truncated   bool   `json:"truncated"`
}

// fetch fetches a URL with more arguments, which begin with a comma.
func fetch(t *testing.T, env tool.Env, url, more string) fetched {
	t.Helper()
	text := run(t, session{tool.NewRegistry(web.WebFetch()), env}, "web_fetch", `{"url":"`+url+`"`+more+`}`)
	var got fetched
	if err := perdure.DecodeJSON([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

func TestWebFetch(t *testing.T) {
	t.Parallel()
	server, env := serve(t)

	got := fetch(t, env, server+"/from", "")

	expect := fetched{server + "/from", server + "/page", 200, "text/html; charset=utf-8", "A & B", "# Hi\n\nSee [there](" + server + "/next?q=1).", false}
	if got != expect {
		t.Errorf("got  %+v\nwant %+v", got, expect)
	}
	want(t, run(t, session{tool.NewRegistry(web.WebFetch()), env}, "web_fetch", `{"url":"`+server+`/json"}`),
		`{"url":"`+server+`/json","final_url":"`+server+`/json","status_code":200,"content_type":"application/json","content":"{\"a\": [1, 2]}","truncated":false}`)
}

func TestWebFetchContent(t *testing.T) {
	t.Parallel()
	server, env := serve(t)
	for _, test := range []struct {
		path, more, want string
		status           int
	}{
		{"/page", `,"format":"text"`, "Hi\n\nSee there.", 200},
		{"/page", `,"format":"raw"`, answers()["/page"].body, 200},
		{"/page", `,"method":"HEAD"`, "", 200},
		{"/missing", "", "Nothing here.", 404},
		{"/broken", "", "out of order", 500},
		{"/problem", "", "{}", 200},
		{"/lines", "", "a\nb\nc", 200},
		{"/png", "", "[An image (image/png) of 9 bytes. web_fetch does not show images.]", 200},
		{"/png", `,"format":"raw"`, "[An image (image/png) of 9 bytes. web_fetch does not show images.]", 200},
		{"/png", `,"max_bytes":4`, "[An image (image/png) of more than 4 bytes. web_fetch does not show images.]", 200},
		{"/svg", "", "<svg/>", 200},
		{"/pdf", "", "[Binary content (application/pdf) of 11 bytes. web_fetch shows only text.]", 200},
		{"/pdf", `,"format":"raw"`, "[Binary content (application/pdf) of 11 bytes. web_fetch shows only text.]", 200},
		{"/liar", "", "[Binary content of 3 bytes, although the server says that it is text/plain.]", 200},
		{"/untyped", "", "plain words", 200},
		{"/unknown", "", "[Binary content (application/zip) of 6 bytes. web_fetch shows only text.]", 200},
		{"/textless", "", "words after all", 200},
		{"/badtype", "", "Sniffed", 200},
		{"/latin", "", "Grüße €“", 200},
		{"/meta", "", "café", 200},
		{"/meta5", "", "café", 200},
		{"/guess", "", "café", 200},
		{"/bom", "", "café", 200},
		{"/utf16", "", "aé😀", 200},
		{"/utf16be", "", "aé", 200},
		{"/sjis", "", "[Text in the character set shift_jis (text/html) of 7 bytes, which web_fetch cannot decode.]", 200},
		{"/sjisascii", "", "plain", 200},
		{"/jis", "", "[Text in the character set iso-2022-jp (text/plain) of 8 bytes, which web_fetch cannot decode.]", 200},
		{"/invalid", "", "a\ufffdbc", 200},
		{"/empty", "", "", 204},
		{"/zipped", "", "unpacked", 200},
		{"/brotli", "", "[The body is compressed (br), although compression was not requested. It was not decoded.]", 200},
		{"/asked", "", "GET de-DE true", 200},
		{"/deep", "", "bottom", 200},
		{"/deep", `,"format":"text"`, "bottom", 200},
	} {
		t.Run(test.path+test.more, func(t *testing.T) {
			t.Parallel()
			got := fetch(t, env, server+test.path, test.more)

			if got.Content != test.want || got.StatusCode != test.status || got.Truncated != strings.Contains(test.more, "max_bytes") {
				t.Errorf("got  %+v\nwant %q, status %d", got, test.want, test.status)
			}
		})
	}
}

// TestWebFetchTruncated wants a body cut where the call says, at a rune.
func TestWebFetchTruncated(t *testing.T) {
	t.Parallel()
	server, env := serve(t)
	for more, bytes := range map[string]int{`,"max_bytes":5`: 4, `,"max_bytes":4`: 4, `,"max_bytes":1`: 0, ``: 1 << 20} {
		got := fetch(t, env, server+"/cut", more)

		if !got.Truncated || got.Content != strings.Repeat("é", bytes/2) {
			t.Errorf("%s: got %d bytes, truncated %v", more, len(got.Content), got.Truncated)
		}
	}
	if got := fetch(t, env, server+"/cut", `,"max_bytes":2097152`); got.Truncated || len(got.Content) != 2<<20 {
		t.Errorf("whole: got %d bytes, truncated %v", len(got.Content), got.Truncated)
	}
}

// TestWebFetchTooLarge wants the page itself kept beside a result that is too long for the model
// (TL16).
func TestWebFetchTooLarge(t *testing.T) {
	t.Parallel()
	server, env := serve(t)
	set := tool.NewRegistry(web.WebFetch())
	for path, long := range map[string]bool{"/cut": true, "/page": false} {
		result, err := set.Execute(t.Context(), tool.Call{ID: "call_1", Tool: "web_fetch", Args: json.RawMessage(`{"url":"` + server + path + `"}`)}, env)
		if err != nil {
			t.Fatal(err)
		}
		record, err := result.Record("call_1")
		if err != nil {
			t.Fatal(err)
		}

		if kept := record.RawOutput != nil && *record.RawOutput == strings.Repeat("é", 1<<19); kept != long {
			t.Errorf("%s: kept %v", path, kept)
		}
		cut := tool.Cut(record, tool.ResultLimit, tool.OutputPath("call_1"))
		if len(cut.Result) > tool.ResultLimit || !json.Valid(cut.Result) {
			t.Errorf("%s: %d bytes", path, len(cut.Result))
		}
	}
}

// TestWebFetchBeyondMarkdown wants a page that would become too large as text, and said so.
func TestWebFetchBeyondMarkdown(t *testing.T) {
	t.Parallel()
	server, env := serve(t)

	got := fetch(t, env, server+"/wide", "")

	note, text, found := strings.Cut(got.Content, "\n\n")
	if !found || !strings.HasPrefix(note, "[This page could not be converted to Markdown") || strings.Count(text, "x") != 20_000 {
		t.Errorf("got %.200q", got.Content)
	}
}

func TestWebFetchRefuses(t *testing.T) {
	t.Parallel()
	server, env := serve(t)
	port := server[strings.LastIndex(server, ":"):]
	for _, test := range []struct{ url, want string }{
		{server + "/inward", "URL not allowed by network policy: 169.254.169.254"},
		{"http://10.0.0.1/", "URL not allowed by network policy: 10.0.0.1"},
		{"http://[::1]" + port + "/page", "URL not allowed by network policy: ::1"},
		{"http://2130706433" + port + "/page", "URL not allowed by network policy: 127.0.0.1"},
		{"file:///etc/passwd", "Invalid URL: it must start with http:// or https://."},
		{"/etc/passwd", "Invalid URL: it must start with http:// or https://."},
		{"http:///path", "Invalid URL: it has no host."},
		{"http://exa mple.com", "Invalid URL: it cannot be parsed."},
	} {
		got := run(t, session{tool.NewRegistry(web.WebFetch()), env}, "web_fetch", `{"url":"`+test.url+`"}`)
		text, err := json.Marshal(map[string]string{"error": test.want})
		if err != nil {
			t.Fatal(err)
		}
		if test.url == "http://2130706433"+port+"/page" && strings.HasPrefix(got, `{"error":"Invalid URL: `) {
			continue // to refuse such a host outright is as good
		}
		want(t, got, string(text))
	}
	got := run(t, session{tool.NewRegistry(web.WebFetch()), env}, "web_fetch", `{"url":"`+server+`/elsewhere"}`)
	if !strings.HasPrefix(got, `{"error":"`) || strings.Contains(got, "root:") {
		t.Errorf("got %s", got)
	}
	for args, text := range map[string]string{
		`{"url":"http://a","method":"POST"}`:     "/method: value must be one of 'GET', 'HEAD'",
		`{"url":"http://a","format":"pdf"}`:      "/format: value must be one of 'markdown', 'text', 'raw'",
		`{"url":"http://a","max_bytes":0}`:       "/max_bytes: got 0, want at least 1",
		`{"url":"http://a","max_bytes":5242881}`: "/max_bytes: got 5242881, want at most 5242880",
		`{"url":"http://a","header":{}}`:         "/header: unknown property",
		`{"url":"http://a","headers":{"a":1}}`:   "/headers/a: got number, want string",
	} {
		if got := run(t, session{tool.NewRegistry(web.WebFetch()), env}, "web_fetch", args); !strings.Contains(got, "Invalid arguments for web_fetch: "+text) {
			t.Errorf("%s: got %s", args, got)
		}
	}
}

// TestWebFetchInternal wants the error of a way out that is none of its words kept for the log.
func TestWebFetchInternal(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken at 10.1.2.3")

	got := web.WebFetch().Run(t.Context(), tool.Call{Args: []byte(`{"url":"http://example.com"}`)}, tool.Env{Egress: wayOut{err: broken}})

	if got.Kind != tool.KindInternal || !errors.Is(got.Err, broken) {
		t.Errorf("got %+v", got)
	}
}

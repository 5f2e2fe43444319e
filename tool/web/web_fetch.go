package web

import (
	"cmp"
	"context"
	_ "embed" // the text that the model reads
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed web_fetch.md
var webFetchText string

// defaultMaxBytes is the default size limit of a body.
const defaultMaxBytes = 1 << 20

// maxHeaders is how many header fields a call may give.
const maxHeaders = 32

type webFetchIn struct {
	URL      string            `json:"url" minLength:"1" maxLength:"8192" jsonschema:"http or https."`
	Method   string            `json:"method,omitempty" enum:"GET,HEAD" default:"GET" jsonschema:"HEAD returns no content."`
	Format   string            `json:"format,omitempty" enum:"markdown,text,raw" default:"markdown" jsonschema:"The format for web pages."`
	MaxBytes int               `json:"max_bytes,omitempty" min:"1" max:"5242880" default:"1048576" jsonschema:"The maximum number of bytes of the body to read."`
	Headers  map[string]string `json:"headers,omitempty" jsonschema:"Header fields of the request, at most 32. A value may name a secret of the session, as in Bearer secret:NAME."`
}

type webFetchOut struct {
	URL         string `json:"url"`
	FinalURL    string `json:"final_url" jsonschema:"After redirects."`
	StatusCode  int    `json:"status_code"`
	ContentType string `json:"content_type" jsonschema:"As stated by the server; empty if it does not state one."`
	Title       string `json:"title,omitempty"`
	Content     string `json:"content"`
	Truncated   bool   `json:"truncated" jsonschema:"True if there is more content than was returned."`
}

// webFetch is web_fetch. If its result is too long for the model, it passes the content on as raw
// output, so that the stored file contains the page itself, which read_file can page through, and
// not one line of JSON.
type webFetch struct{ tool.Tool }

// WebFetch returns the tool that fetches a page.
func WebFetch() tool.Tool {
	return webFetch{tool.New(tool.Spec{
		Name:        "web_fetch",
		DisplayName: "Web Fetch",
		Narration:   tool.Narration{Started: "Fetching {url}", Completed: "Fetched {url}[: HTTP {result.status_code}]", Failed: "Could not fetch {url}"},
		Description: described(webFetchText),
		Class:       perdure.Pure,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), OpenWorld: ptrTrue(), PersistOutput: ptrTrue()},
		Deadline:    deadline,
	}, fetch)}
}

// Run fetches a page.
func (w webFetch) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	result := w.Tool.Run(ctx, call, env)
	out, ok := result.Value.(webFetchOut)
	if !ok {
		return result
	}
	if record, err := result.Record(call.ID); err == nil && len(record.Result) > tool.ResultLimit {
		return result.WithRaw(out.Content)
	}
	return result
}

func fetch(ctx context.Context, in webFetchIn, env tool.Env) (webFetchOut, error) {
	at, err := url.Parse(in.URL)
	switch {
	case err != nil:
		return webFetchOut{}, tool.Errorf("Invalid URL: it cannot be parsed.")
	case at.Scheme != "http" && at.Scheme != "https":
		return webFetchOut{}, tool.Errorf("Invalid URL: it must start with http:// or https://.")
	case at.Hostname() == "":
		return webFetchOut{}, tool.Errorf("Invalid URL: it has no host.")
	}
	if err := checkHeaders(in.Headers); err != nil {
		return webFetchOut{}, err
	}
	resp, err := send(ctx, env, "web_fetch", "", request(in, env))
	if err != nil {
		return webFetchOut{}, err
	}
	if final, err := url.Parse(resp.URL); err == nil {
		at = final
	}
	out := webFetchOut{
		URL: in.URL, FinalURL: clean(resp.URL), StatusCode: resp.Status,
		ContentType: clean(http.Header(resp.Header).Get("Content-Type")),
	}
	if in.Method == http.MethodHead {
		return out, nil
	}
	format := in.Format
	format = cmp.Or(format, formatMarkdown)
	body, err := contentOf(ctx, resp, at, format)
	out.Title, out.Content, out.Truncated = body.title, body.text, body.truncated
	return out, err
}

// request builds the request of a call. It has no purpose, so hosts allowed for one purpose stay
// closed to it (EG3).
func request(in webFetchIn, env tool.Env) perdure.WebRequest {
	if in.MaxBytes <= 0 {
		in.MaxBytes = defaultMaxBytes
	}
	header := map[string][]string{"Accept": {"text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"}}
	if env.Locale != "" && !strings.ContainsAny(env.Locale, "\r\n\x00") {
		header["Accept-Language"] = []string{env.Locale}
	}
	for name, value := range in.Headers {
		header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return perdure.WebRequest{Method: in.Method, URL: in.URL, Header: header, MaxBytes: int64(in.MaxBytes)}
}

// checkHeaders checks the header fields that a model gives. Some servers read the method from a
// header field; such a request could have an effect, and this tool has none.
func checkHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return tool.Errorf("There are %d headers; at most %d are allowed.", len(headers), maxHeaders)
	}
	for name, value := range headers {
		strange := func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}
		switch {
		case name == "" || strings.ContainsFunc(name, strange):
			return tool.Errorf("Invalid header %s: a name has only letters, digits, - and _.", clean(name))
		case strings.Contains(strings.ToLower(name), "method"):
			return tool.Errorf("The header %s is not allowed: web_fetch only reads, and this header can change the method.", clean(name))
		case strings.EqualFold(name, "Host"):
			return tool.Errorf("The header Host is not allowed: the URL names the host.")
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return tool.Errorf("Invalid header %s: its value has a control character.", clean(name))
		}
	}
	return nil
}

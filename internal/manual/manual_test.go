package manual_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/perdure/perdure/docs"
	"github.com/perdure/perdure/internal/manual"
)

// shown requests a page, with the ETags that a reader already has.
func shown(t *testing.T, h http.Handler, target string, has ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for _, tag := range has {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// files returns all pages of the folder docs.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(docs.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 70 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

// addressOf returns the address of a file.
func addressOf(file string) string {
	if file == "README.md" {
		return "/docs"
	}
	return "/docs/" + strings.TrimSuffix(file, ".md")
}

// TestEveryPage: each page has what a browser and its reader need, and its source is the file.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	m := manual.New(docs.Files)
	addresses := []string{"/docs/how-to", "/docs/reference", "/docs/decisions", "/docs/no-such-page"}
	for _, file := range files(t) {
		addresses = append(addresses, addressOf(file))
		text, err := fs.ReadFile(docs.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		source := shown(t, m, "/docs/"+file)
		if source.Code != 200 || source.Body.String() != string(text) || source.Header().Get("Content-Type") != "text/markdown; charset=utf-8" {
			t.Errorf("%s: got %d %v", file, source.Code, source.Header())
		}
	}
	for _, address := range addresses {
		got := shown(t, m, address)
		page := got.Body.String()
		if want := map[bool]int{true: 404, false: 200}[address == "/docs/no-such-page"]; got.Code != want || got.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: got %d %v", address, got.Code, got.Header())
		}
		for what, n := range map[string]int{
			"<html lang=\"en\">": 1, "<h1": 1, "<main ": 1, "<header>": 1, "<title>": 1, "<a class=\"skip\" href=\"#main\">": 1,
			"<script": 0, " style=": 0, " src=": 0, "<link": 0, "<img": 0, "<form": 0, "raw HTML": 0, "<!--": 0,
		} {
			if strings.Count(page, what) != n {
				t.Errorf("%s has %d of %s, want %d", address, strings.Count(page, what), what, n)
			}
		}
		if inline := regexp.MustCompile(`<[^>]* on\w+=`).FindString(page); inline != "" {
			t.Errorf("%s has %s", address, inline)
		}
		found := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("%s has no look", address)
		}
		sum := sha256.Sum256([]byte(found[1]))
		policy := got.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';") {
			t.Errorf("%s: the policy %q does not let its look through", address, policy)
		}
	}
}

// TestLinksOpen follows every link of every page, with and without a URL prefix, and checks that
// the target exists.
func TestLinksOpen(t *testing.T) {
	t.Parallel()
	m := manual.New(docs.Files)
	addresses := []string{"/docs/how-to", "/docs/reference", "/docs/decisions", "/docs/a/b/no-such-page"}
	for _, file := range files(t) {
		addresses = append(addresses, addressOf(file))
	}
	followed := 0
	for _, address := range addresses {
		page := shown(t, m, address).Body.String()
		for _, found := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if strings.HasPrefix(found[1], "https://") {
				continue
			}
			followed++
			base, err := url.Parse("http://server/some/prefix" + address)
			if err != nil {
				t.Fatal(err)
			}
			to, err := base.Parse(found[1])
			if err != nil {
				t.Fatal(err)
			}
			path, behind := strings.CutPrefix(to.Path, "/some/prefix")
			switch {
			case !behind:
				t.Errorf("%s: %s leaves the prefix", address, found[1])
			case path == "/openapi.json": // served by the API
			default:
				there := shown(t, m, path)
				if there.Code != 200 && path != address || to.Fragment != "" && !strings.Contains(there.Body.String(), ` id="`+to.Fragment+`"`) {
					t.Errorf("%s: %s leads nowhere (%d)", address, found[1], there.Code)
				}
			}
		}
	}
	if followed < 500 {
		t.Errorf("only %d links", followed)
	}
}

// TestList: programs find every page, in the format of llmstxt.org.
func TestList(t *testing.T) {
	t.Parallel()
	m := manual.New(docs.Files)
	got := shown(t, m, "/llms.txt")
	text := got.Body.String()
	if !regexp.MustCompile(`^# Perdure\n\n> [^\n]+\n(> [^\n]+\n)*\n[^#]`).MatchString(text) || got.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %v\n%.400s", got.Header(), text)
	}
	left := files(t)
	_, sections, _ := strings.Cut(text, "\n## ")
	for line := range strings.Lines(sections) {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		found := regexp.MustCompile(`^- \[[^\]]+\]\(docs/([^)]+\.md)\)(?:: .*[.?:])?\n$`).FindStringSubmatch(line)
		if found == nil {
			t.Errorf("no line of llms.txt: %s", line)
			continue
		}
		if shown(t, m, "/docs/"+found[1]).Code != 200 {
			t.Errorf("%s is not there", found[1])
		}
		left = slices.DeleteFunc(left, func(file string) bool { return file == found[1] })
	}
	if len(left) > 0 {
		t.Errorf("llms.txt does not have %v", left)
	}
}

// TestAnswers: repeated requests are cheap, and other names lead to the page.
func TestAnswers(t *testing.T) {
	t.Parallel()
	m := manual.New(docs.Files)
	first := shown(t, m, "/docs/concepts")
	tag := first.Header().Get("ETag")
	if tag == "" || first.Header().Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("got %v", first.Header())
	}
	for _, given := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if got := shown(t, m, "/docs/concepts", given); got.Code != 304 || got.Body.Len() != 0 || got.Header().Get("ETag") != tag {
			t.Errorf("%s: got %d %v", given, got.Code, got.Header())
		}
	}
	if got := shown(t, m, "/docs/tutorial", tag); got.Code != 200 {
		t.Errorf("another page: got %d", got.Code)
	}
	for _, path := range []string{"/docs/", "/docs/README"} {
		if got := shown(t, m, path); got.Code != 301 || got.Header().Get("Location") != "../docs" {
			t.Errorf("%s: got %d %v", path, got.Code, got.Header())
		}
	}
	for _, path := range []string{"/docs/../go.mod", "/docs/docs.go", "/docs/reference/openapi.json", "/docs/how-to/", "/docs/%3Cscript%3E"} {
		if got := shown(t, m, path); got.Code != 404 || strings.Contains(got.Body.String(), "<script") || got.Header().Get("ETag") != "" {
			t.Errorf("%s: got %d %s", path, got.Code, got.Body)
		}
	}
}

// TestNothingOfItsOwn: HTML in a page is escaped, and files that exist only in the repository are
// not linked.
func TestNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	m := manual.New(fstest.MapFS{
		"README.md":   {Data: []byte("# A & B\n\n<script>alert(1)</script>\n\nText <b onclick=x>bold</b> and [go](../go.mod), [bad](javascript:alert(1)), `<i>`.\n\n## a_b c\n\n## a_b c\n")},
		"how-to/a.md": {Data: []byte("# A\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n```sh\necho '<a>'\n```\n")},
	})
	page := shown(t, m, "/docs").Body.String()
	for _, want := range []string{"<title>A &amp; B · Perdure</title>", "go (go.mod in the repository)", "<code>&lt;i&gt;</code>", `id="a_b-c"`, `id="a_b-c-1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s in\n%s", want, page)
		}
	}
	for _, bad := range []string{"<script", "onclick", "href=\"javascript", "go.mod\"", "<!--"} {
		if strings.Contains(page, bad) {
			t.Errorf("there is %s in\n%s", bad, page)
		}
	}
	page = shown(t, m, "/docs/how-to/a").Body.String()
	for _, want := range []string{"<table>", `<pre tabindex="0"><code>echo '&lt;a&gt;'`} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s in\n%s", want, page)
		}
	}
	if untitled := manual.New(fstest.MapFS{"README.md": {Data: []byte("text\n")}}); shown(t, untitled, "/docs").Code != 500 {
		t.Error("a page without a title is shown")
	}
}

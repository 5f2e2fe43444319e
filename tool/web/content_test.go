package web

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// from is where the pages of these tests come from.
func from(t testing.TB) *url.URL {
	t.Helper()
	at, err := url.Parse("https://example.com/docs/page.html?q=1#top")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestGoldenPages compares pages, as Markdown and as text, with testdata: each name.html with
// name.md and name.txt.
func TestGoldenPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "pages.txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, isPage := strings.CutSuffix(f.Name, ".html")
		if !isPage {
			continue
		}
		p := openPage(string(f.Data), from(t))
		markdown, err := p.markdown(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		written.Files = append(written.Files, f, txtar.File{Name: name + ".md", Data: []byte(markdown)}, txtar.File{Name: name + ".txt", Data: []byte(p.plainText())})
	}
	tooltest.Golden(t, "pages.txtar", written, *update)
}

// TestGoldenTexts compares what a model reads of the tools with testdata.
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	tools, err := Tools(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var archive txtar.Archive
	for _, found := range tools {
		spec := found.Spec()
		archive.Files = append(archive.Files,
			txtar.File{Name: spec.Name + ".txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
			txtar.File{Name: spec.Name + ".json", Data: tooltest.Indented(t, spec.Parameters)},
			txtar.File{Name: spec.Name + "-output.json", Data: tooltest.Indented(t, spec.OutputSchema)})
	}
	tooltest.Golden(t, "definitions.txtar", archive, *update)
}

// TestSpecs wants what TL27 and O7 say of the three.
func TestSpecs(t *testing.T) {
	t.Parallel()
	tools, err := Tools(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"get_weather", "get_forecast", "web_fetch"} {
		spec := tools[i].Spec()
		if spec.Name != name || spec.Class != perdure.Pure || !*spec.Hints.ReadOnly || !*spec.Hints.OpenWorld || spec.Hints.Idempotent != nil || spec.NeedsEnv {
			t.Errorf("got %+v", spec)
		}
	}
}

// TestConditions wants a word for every code that the service documents, and no word twice.
func TestConditions(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, code := range []int{0, 1, 2, 3, 45, 48, 51, 53, 55, 56, 57, 61, 63, 65, 66, 67, 71, 73, 75, 77, 80, 81, 82, 85, 86, 95, 96, 99} {
		word := *condition(&code)
		if other, twice := seen[word]; twice || strings.HasPrefix(word, "unknown") {
			t.Errorf("%d is %q, as %d is", code, word, other)
		}
		seen[word] = code
	}
	for code := -1; code <= 100; code++ {
		if word := *condition(&code); strings.HasPrefix(word, "unknown") == (seen[word] != 0 || word == "clear sky") {
			t.Errorf("%d is %q", code, word)
		}
	}
}

// TestMarkdownCanceled wants the cause, not half a page.
func TestMarkdownCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(perdure.CauseShutdown)

	got, err := openPage("<p>a", from(t)).markdown(ctx)

	if got != "" || !errors.Is(err, perdure.CauseShutdown) {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzContent reads any body as any type of content. What comes out is fit for a result.
func FuzzContent(f *testing.F) {
	for name, text := range hostile() {
		f.Add([]byte(text[:2000]), "text/html", formatMarkdown, len(name)%2 == 0)
	}
	f.Add([]byte("\xff\xfea\x00"), "text/plain", formatText, true)
	f.Add([]byte("<meta charset=x><p>\x80"), "text/html; charset=windows-1252", "raw", true)
	f.Fuzz(func(t *testing.T, body []byte, contentType, format string, cut bool) {
		if len(body) > 1<<14 {
			t.Skip("sizes are for TestHostilePages")
		}
		resp := perdure.WebResponse{Status: 200, Header: map[string][]string{"Content-Type": {contentType}}, Body: body, Truncated: cut}

		got, err := contentOf(t.Context(), resp, from(t), format)

		if err != nil || !utf8.ValidString(got.text) || !utf8.ValidString(got.title) || strings.ContainsRune(got.text+got.title, 0) {
			t.Errorf("got %+v, %v", got, err)
		}
		if len(got.text) > 1<<10+64*len(body) || got.truncated != cut || utf8.RuneCountInString(got.title) > maxTitleRunes+1 {
			t.Errorf("%d bytes became %d, truncated %v", len(body), len(got.text), got.truncated)
		}
	})
}

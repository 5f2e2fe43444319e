package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
)

// saidGone finds what a deprecation has to say.
var saidGone = regexp.MustCompile(`Deprecated since (\d+)\.(\d+), removed in (\d+)\.(\d+): use \S`)

// deprecated lists the faults in the deprecations of a part of an OpenAPI document, and counts
// them. log is the text of the changelog and its fragments; at is the name of the part.
func deprecated(part any, at string, log string) (n int, wrong []string) {
	switch part := part.(type) {
	case map[string]any:
		if part["deprecated"] == true {
			n++
			words, _ := part["description"].(string)
			if id, ok := part["operationId"].(string); ok {
				at = id
			} else if name, ok := part["name"].(string); ok {
				at = name
			}
			wrong = append(wrong, farewellFaults(at, words, log)...)
		}
		for _, name := range slices.Sorted(maps.Keys(part)) {
			more, bad := deprecated(part[name], name, log)
			n, wrong = n+more, append(wrong, bad...)
		}
	case []any:
		for _, one := range part {
			more, bad := deprecated(one, at, log)
			n, wrong = n+more, append(wrong, bad...)
		}
	}
	return n, wrong
}

func farewellFaults(name, words, log string) (wrong []string) {
	said := saidGone.FindStringSubmatch(words)
	if said == nil {
		return []string{fmt.Sprintf("%s does not say since when, until when and what instead: %q", name, words)}
	}
	var v [4]int
	for i := range v {
		v[i], _ = strconv.Atoi(said[i+1]) // digits
	}
	if v[2] == v[0] && v[3] < v[1]+2 || v[2] < v[0] {
		wrong = append(wrong, fmt.Sprintf("%s is gone earlier than two minors after it was said: %s", name, words))
	}
	if !regexp.MustCompile(`(?i)deprecat[^\n]*` + "`" + regexp.QuoteMeta(name) + "`").MatchString(log) {
		wrong = append(wrong, fmt.Sprintf("neither the changelog nor a fragment of it has a line that says that `%s` is deprecated", name))
	}
	return wrong
}

// TestH14Deprecations holds the document that a server serves: whatever it calls deprecated says
// since which version, with which one, two minors later or more, it is gone, and what to use
// instead, and a line of the changelog names it.
func TestH14Deprecations(t *testing.T) {
	t.Parallel()
	read := func(text string) (doc any) {
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	text, err := os.ReadFile("../../docs/reference/openapi.json") // which TestH1 compares with the served one
	if err != nil {
		t.Fatal(err)
	}
	released, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	log.Write(released)
	err = filepath.WalkDir("../../changelog", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		fragment, err := os.ReadFile(path)
		log.Write(fragment)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, wrong := deprecated(read(string(text)), "", log.String()); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}

	for words, want := range map[string]string{ // the check finds what it looks for
		"Deprecated since 1.4, removed in 1.6: use new.": "",
		"Deprecated since 1.4, removed in 2.0: use new.": "",
		"Deprecated since 1.4, removed in 1.5: use new.": "earlier than two minors",
		"Deprecated since 2.4, removed in 1.9: use new.": "earlier than two minors",
		"Old.": "does not say",
	} {
		for at, part := range map[string]string{
			"field": `{"components":{"schemas":{"A":{"properties":{"field":{"deprecated":true,"description":%q}}}}}}`,
			"op":    `{"paths":{"/v1/a":{"get":{"operationId":"op","deprecated":true,"description":%q}}}}`,
			"query": `{"paths":{"/v1/a":{"get":{"parameters":[{"name":"query","deprecated":true,"description":%q}]}}}}`,
		} {
			n, wrong := deprecated(read(fmt.Sprintf(part, words)), "", "Change: deprecates `"+at+"`")
			if got := strings.Join(wrong, " "); n != 1 || (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s, %s: got %d, %q, want %q", at, words, n, got, want)
			}
		}
	}
	if wrong := farewellFaults("field", "Deprecated since 1.4, removed in 1.6: use new.", "Change: `field` is new"); len(wrong) != 1 {
		t.Errorf("without a line of the changelog: got %q", wrong)
	}
}

// TestH14Farewell: every answer of an operation that will be gone says so, also a refusal, and no
// answer of another one.
func TestH14Farewell(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Engine: struct{ engine.Engine }{}, Local: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	told := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	going := deprecation{since: "1.4", removedIn: "1.6", replacement: "/v1/new", announced: told, sunset: told.AddDate(1, 0, 0)}
	type answer struct{ Body struct{ Old string } }
	give := func(context.Context, *struct{}) (*answer, error) { return &answer{}, nil }
	read(a, operation{id: "get-old", path: "/v1/old", policy: reads, summary: "Old", deprecation: going}, give)
	read(a, operation{id: "get-new", path: "/v1/new", policy: reads, summary: "New"}, give)
	document, err := a.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	if n, wrong := deprecated(doc, "", "Change: deprecated: `get-old`"); n != 1 || len(wrong) != 0 {
		t.Errorf("the document: %d, %q", n, wrong)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for line, want := range map[string]string{
		"/v1/old 200": "@1893553445 Thu, 02 Jan 2031 03:04:05 GMT", "/v1/old?no=1 400": "@1893553445 Thu, 02 Jan 2031 03:04:05 GMT", "/v1/new 200": " ",
	} {
		path, status, _ := strings.Cut(line, " ")
		got, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(got.Body) // shown only
		if err := got.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if said := got.Header.Get("Deprecation") + " " + got.Header.Get("Sunset"); said != want || strconv.Itoa(got.StatusCode) != status {
			t.Errorf("%s: got %d, %q, want %q: %s", line, got.StatusCode, said, want, body)
		}
	}
}

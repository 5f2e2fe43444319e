package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	patch := func(path, body string) ask { return ask{method: http.MethodPatch, path: path, body: body} }

	t.Run("begin_with_the_session_and_change", func(t *testing.T) {
		got := want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{"title":"a","labels":{"of":"agent"}},"title":"t","labels":{"env":"test","draft":""}}`))
		if got.Title != "t" || !maps.Equal(got.Labels, perdure.Labels{"env": "test", "draft": ""}) {
			t.Errorf("got %+v", got)
		}
		s := "/v1/sessions/" + string(got.ID)
		got = want[engine.Session](r, 200, patch(s, `{"labels":{"env":"prod","draft":null,"gone":null}}`))
		if got.Title != "t" || !maps.Equal(got.Labels, perdure.Labels{"env": "prod"}) {
			t.Errorf("got %+v", got)
		}
		again := want[engine.Session](r, 200, patch(s, `{"title":"t","labels":{"env":"prod"}}`))
		if again.LastSeq != got.LastSeq {
			t.Errorf("the same again is another event: %+v", again)
		}
		for _, body := range []string{`{}`, `{"labels":{"Env":"x"}}`, `{"labels":{"env":"\n"}}`, `{"title":""}`} {
			r.refusal(r.do(patch(s, body)), 400, "invalid")
		}
		r.refusal(r.do(post("/v1/sessions", `{"agent":{},"labels":{"":"x"}}`)), 400, "invalid")
	})
	t.Run("are_walked_page_by_page", func(t *testing.T) {
		for i := range 7 {
			want[engine.Session](r, 201, post("/v1/sessions", fmt.Sprintf(`{"agent":{},"labels":{"walk":"%d","team":"a"}}`, i%2)))
		}
		base := "/v1/sessions?limit=2&label=walk%3D0&label=team"
		seen, path := map[perdure.SessionID]bool{}, base
		for path != "" {
			page := want[taskInList[engine.Session]](r, 200, get(path))
			for _, s := range page.Items {
				if seen[s.ID] || s.Labels["walk"] != "0" {
					t.Errorf("shown twice, or without the label: %+v", s)
				}
				seen[s.ID] = true
			}
			if path = ""; page.Next != "" {
				// what comes and what changes meanwhile moves nothing
				want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{},"labels":{"walk":"1","team":"a"}}`))
				path = base + "&cursor=" + url.QueryEscape(page.Next)
				r.refusal(r.do(get("/v1/sessions?limit=2&label=walk%3D1&cursor="+url.QueryEscape(page.Next))), 400, "invalid")
			}
		}
		if len(seen) != 4 {
			t.Errorf("%d were shown, want 4", len(seen))
		}
		r.refusal(r.do(get("/v1/sessions?label=Env")), 400, "invalid")
	})
	t.Run("go_with_the_state", func(t *testing.T) {
		base := "/v1/sessions?limit=2&label=walk%3D1&state="
		page := want[taskInList[engine.Session]](r, 200, get(base+"started"))
		if len(page.Items) != 2 || page.Next == "" {
			t.Errorf("got %+v", page)
		}
		want[taskInList[engine.Session]](r, 200, get(base+"started&cursor="+url.QueryEscape(page.Next)))
		r.refusal(r.do(get(base+"idle&cursor="+url.QueryEscape(page.Next))), 400, "invalid")
		if none := want[taskInList[engine.Session]](r, 200, get(base+"paused")); len(none.Items) != 0 {
			t.Errorf("got %+v", none)
		}
		r.refusal(r.do(get(base+"asleep")), 400, "invalid")
	})
}

// TestTitleSearch walks the sessions whose title has all words of a text, page by page.
func TestTitleSearch(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 9 {
		title := []string{"Invoices of MÄRZ", "100 % of it", "it's a_b \\\\"}[i%3]
		want[engine.Session](r, 201, post("/v1/sessions", fmt.Sprintf(`{"agent":{},"title":"%s %d"}`, title, i)))
	}
	walk := func(text string) (titles []string) {
		base := "/v1/sessions?limit=2&text=" + url.QueryEscape(text)
		for path := base; path != ""; {
			page := want[taskInList[engine.Session]](r, 200, get(path))
			for _, s := range page.Items {
				titles = append(titles, s.Title)
			}
			if path = ""; page.Next != "" {
				path = base + "&cursor=" + url.QueryEscape(page.Next)
			}
		}
		return titles
	}
	for text, found := range map[string][]string{
		"märz INVOICES": {"Invoices of MÄRZ 6", "Invoices of MÄRZ 3", "Invoices of MÄRZ 0"},
		"%":             {"100 % of it 7", "100 % of it 4", "100 % of it 1"},
		`a_b \ '`:       {`it's a_b \ 8`, `it's a_b \ 5`, `it's a_b \ 2`},
		"of 3":          {"Invoices of MÄRZ 3"},
		"' OR 1=1 --":   nil,
	} {
		if got := walk(text); !slices.Equal(got, found) {
			t.Errorf("%q: got %q, want %q", text, got, found)
		}
	}

	next := want[taskInList[engine.Session]](r, 200, get("/v1/sessions?limit=1&text=of")).Next
	for _, query := range []string{"", "&text=invoices", "&text=%20of", "&state=started&text=of"} {
		p := r.refusal(r.do(get("/v1/sessions?limit=1"+query+"&cursor="+url.QueryEscape(next))), 400, "invalid")
		if len(p.FieldErrors) != 1 || p.FieldErrors[0].Field != "query.cursor" {
			t.Errorf("a cursor of another text with %q: %+v", query, p)
		}
	}
	for _, text := range []string{"%ff", strings.Repeat("x", 201)} {
		r.refusal(r.do(get("/v1/sessions?text="+text)), 400, "invalid")
	}
}

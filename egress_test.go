package perdure_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/urlform"
)

// TestNetworkListPermits holds NL1: what a pattern matches.
func TestNetworkListPermits(t *testing.T) {
	t.Parallel()
	const yes, no = true, false
	cases := []struct {
		pattern, url   string
		allow, blocked bool
	}{
		{"a.test", "http://a.test/x", yes, yes}, {"A.Test.", "https://a.test:8443/", yes, yes}, {"a.test", "http://A.TEST./", yes, yes},
		{"a.test", "http://x.a.test/", no, no}, {"a.test", "http://xa.test/", no, no}, {"a.test", "http://a.test.evil/", no, no},
		{"*.a.test", "http://a.test/", yes, yes}, {"*.a.test", "http://y.x.a.test/", yes, yes}, {"*.a.test", "http://xa.test/", no, no},
		{"*.A.test", "http://X.a.Test/", yes, yes},
		{"10.0.0.1", "http://[::ffff:10.0.0.1]/", yes, yes}, {"::1", "http://[::1]:80/", yes, yes}, {"[::1]", "http://[0::1]/", yes, yes},
		{"::ffff:10.0.0.1", "http://10.0.0.1/", yes, yes},
		{"https://a.test", "https://a.test/x", yes, yes}, {"https://a.test", "http://a.test/x", no, no}, {"https://a.test", "https://a.test:444/", no, no},
		{"https://a.test:443/", "https://a.test/x", yes, yes}, {"http://a.test:8080/v1", "http://a.test:8080/v1/x?y", yes, yes},
		{"http://a.test/v1", "http://a.test/v1", yes, yes}, {"http://a.test/v1/", "http://a.test/v1", yes, yes}, {"http://a.test/v1", "http://a.test/v10", no, no},
		{"http://a.test/v1", "http://a.test/V1", no, no}, {"http://a.test/v1", "http://a.test/v1/../v2", no, no}, {"http://a.test/v1", "http://a.test/x/../v1/y", yes, yes},
		{"http://a.test/%761", "http://a.test/v%31/x", yes, yes}, {"http://a.test/v1", "http://x.a.test/v1", no, no},
		// what servers read in different ways is blocked, and not allowed
		{"http://a.test/v1/x", "http://a.test//v1//x", no, yes}, {"http://a.test/v1/x", "http://a.test/v1%2fx", no, yes}, {"http://a.test/v1/x", "http://a.test/v1;a=b/x", no, yes},
		{"http://a.test/v1", "http://a.test/%2576%31", no, yes}, {"http://a.test/v1", "http://a.test/%2576%31/%25", no, yes}, {"http://a.test/v1/x", "http://a.test/v1%5cx", no, yes},
		// broken patterns close
		{"", "http://a.test/", no, yes}, {"*", "http://a.test/", no, yes}, {"*.", "http://a.test/", no, yes}, {"a.test:80", "http://a.test/", no, yes},
		{"a.test/x", "http://a.test/x", no, yes}, {"http://", "http://a.test/", no, yes}, {"ftp://a.test", "http://a.test/", no, yes}, {"*.10.0.0.1", "http://10.0.0.1/", no, yes},
		{"http://*.a.test/", "http://x.a.test/", no, yes}, {"http://a.test/?q", "http://a.test/?q", no, yes}, {"x.*.test", "http://x.a.test/", no, yes}, {"127.1", "http://127.0.0.1/", no, yes},
	}
	for _, c := range cases {
		allow, rule := perdure.NetworkList{Allowed: []string{c.pattern}}.Permits(c.url)
		if allow != c.allow || !allow && rule != perdure.RuleAllowed {
			t.Errorf("allowed %q, %s: got %v, rule %q", c.pattern, c.url, allow, rule)
		}
		open, rule := perdure.NetworkList{Blocked: []string{c.pattern}}.Permits(c.url)
		if open == c.blocked || !open && rule != perdure.RuleBlocked {
			t.Errorf("blocked %q, %s: got %v, rule %q", c.pattern, c.url, open, rule)
		}
	}
}

// TestNetworkListOrder: Blocked is looked at first, and no URL passes unread (regression: one that
// did not parse passed where only Blocked was set).
func TestNetworkListOrder(t *testing.T) {
	t.Parallel()
	l := perdure.NetworkList{Allowed: []string{"*.a.test"}, Blocked: []string{"b.a.test"}}
	for u, want := range map[string]string{"http://b.a.test/": perdure.RuleBlocked, "http://c.a.test/": "", "http://c.test/": perdure.RuleAllowed} {
		if ok, rule := l.Permits(u); rule != want || ok != (want == "") {
			t.Errorf("%s: got %v, %q, want %q", u, ok, rule, want)
		}
	}
	for _, l := range []perdure.NetworkList{{}, {Blocked: []string{"b.test"}}, {Allowed: []string{"a.test"}}} {
		for _, u := range []string{"http://a.test/%zz", "http://127.1/", "ftp://a.test/", "http://u@a.test/", "", "http://a.test\\x"} {
			if ok, rule := l.Permits(u); ok || rule != perdure.RuleInvalid {
				t.Errorf("%+v, %q: got %v, %q", l, u, ok, rule)
			}
		}
	}
}

// TestNetworkListCheck: every broken pattern is named, and no good one.
func TestNetworkListCheck(t *testing.T) {
	t.Parallel()
	good := perdure.NetworkList{Allowed: []string{"a.test", "*.b.test", "https://c.test/x", "::1"}, Blocked: []string{"*", "10.0.0.1"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	err := perdure.NetworkList{Allowed: []string{"*", "a.test", "a b"}, Blocked: []string{"http://u:p@x/", "x:1"}}.Check()
	if !errors.Is(err, perdure.Invalid) || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("got %v", err)
	}
}

// TestNarrow holds NL2's cases.
func TestNarrow(t *testing.T) {
	t.Parallel()
	list := func(allowed, blocked string) perdure.NetworkList {
		return perdure.NetworkList{Allowed: strings.Fields(allowed), Blocked: strings.Fields(blocked)}
	}
	cases := []struct {
		name                string
		parent, child, want perdure.NetworkList
	}{
		{"both empty", list("", ""), list("", ""), list("", "")},
		{"the child inherits", list("a.test", "x"), list("", "y"), list("a.test", "x y")},
		{"the parent allows all", list("", "x"), list("a.test", "x"), list("a.test", "x")},
		{"blocked is the union, the parent's first", list("", "c a"), list("", "b a"), list("", "c a b")},
		{"inside a wildcard", list("*.a.test", ""), list("a.test x.a.test *.x.a.test http://x.a.test/p b.test", ""), list("a.test x.a.test *.x.a.test http://x.a.test/p", "")},
		{"an exact host grants no wildcard", list("a.test b.test", ""), list("*.a.test b.test", ""), list("b.test", "")},
		{"an exact host grants its prefixes", list("a.test", ""), list("https://a.test:8443/x", ""), list("https://a.test:8443/x", "")},
		{"a prefix grants longer ones only", list("https://a.test/v1", ""), list("https://a.test/v1/x https://a.test/v10 https://a.test a.test http://a.test/v1", ""), list("https://a.test/v1/x", "")},
		{"nothing left", list("a.test", "x"), list("b.test", "y"), list("a.test", "x y *")},
		{"nothing left, once more", list("a.test", "*"), list("b.test", ""), list("a.test", "*")},
		{"a wider child", list("x.a.test", ""), list("*.a.test", ""), list("x.a.test", "*")},
		{"a broken child", list("a.test", ""), list("a:b", ""), list("a.test", "*")},
		{"written differently", list("A.Test", ""), list("a.test. http://a.TEST:80", ""), list("a.test. http://a.TEST:80", "")},
	}
	for _, c := range cases {
		got := c.parent.Narrow(c.child)
		if !slices.Equal(got.Allowed, c.want.Allowed) || !slices.Equal(got.Blocked, c.want.Blocked) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// anyPattern draws patterns over few hosts and paths, so that they meet; some are broken.
func anyPattern() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		host := anyHost().Draw(t, "host")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2:
			return host
		case 3, 4, 5:
			return "*." + host
		case 6:
			return rapid.SampledFrom([]string{"", "*", "a b", "http://", "*.10.0.0.1", host + ":80", "127.1"}).Draw(t, "broken")
		}
		return anyURL().Draw(t, "prefix")
	})
}

func anyHost() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a.test", "A.test.", "x.a.test", "y.x.a.test", "b.test", "xa.test", "test", "10.0.0.1"})
}

func anyURL() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		scheme := rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme")
		port := rapid.SampledFrom([]string{"", "", ":80", ":443", ":8080"}).Draw(t, "port")
		path := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/v1", "/v10", "/%761", "/x", "//x", "/a%2fb", "/a/b", "/", ";p", "%25", "/%2541"}), 0, 3).Draw(t, "path"), "")
		if path != "" && path[0] != '/' {
			path = "/" + path
		}
		return scheme + "://" + anyHost().Draw(t, "host") + port + path
	})
}

func anyList() *rapid.Generator[perdure.NetworkList] {
	return rapid.Custom(func(t *rapid.T) perdure.NetworkList {
		patterns := rapid.SliceOfN(anyPattern(), 0, 4)
		return perdure.NetworkList{Allowed: patterns.Draw(t, "allowed"), Blocked: rapid.SliceOfN(anyPattern(), 0, 2).Draw(t, "blocked")}
	})
}

// TestNarrowLaws: whatever the layers, narrowing only takes away, and what was removed stays
// removed (NL2).
func TestNarrowLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parent, child, later := anyList().Draw(t, "parent"), anyList().Draw(t, "child"), anyList().Draw(t, "later")
		u := anyURL().Draw(t, "url")
		permits := func(l perdure.NetworkList) bool { ok, _ := l.Permits(u); return ok }
		both := parent.Narrow(child)

		if permits(both) && !(permits(parent) && permits(child)) {
			t.Fatalf("%v narrowed by %v is %v and permits %s, which one of them refuses", parent, child, both, u)
		}
		if !permits(both) && permits(both.Narrow(later)) {
			t.Fatalf("a later layer reopens %s", u)
		}
		if permits(parent) != permits(parent.Narrow(perdure.NetworkList{})) || permits(child) != permits(perdure.NetworkList{}.Narrow(child)) {
			t.Fatalf("an empty layer changes what becomes of %s", u)
		}
		if permits(parent) != permits(parent.Narrow(parent)) {
			t.Fatalf("a list narrowed by itself decides otherwise about %s", u)
		}
	})
}

// TestPatternLaws: Allowed reads a pattern never wider than Blocked does, and nothing is permitted
// that is spelled otherwise than its normal form.
func TestPatternLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, raw := anyPattern().Draw(t, "pattern"), anyURL().Draw(t, "url")
		allow, _ := perdure.NetworkList{Allowed: []string{p}}.Permits(raw)
		open, _ := perdure.NetworkList{Blocked: []string{p}}.Permits(raw)
		if allow && open {
			t.Fatalf("%q allows %s and does not block it", p, raw)
		}
		u, err := urlform.Normal(raw)
		if err != nil {
			return
		}
		if again, _ := (perdure.NetworkList{Allowed: []string{p}}).Permits(u.String()); again != allow {
			t.Fatalf("%q decides otherwise about %s than about %s", p, u, raw)
		}
	})
}

// FuzzNetworkList: no pattern and no URL makes the laws of lists untrue.
func FuzzNetworkList(f *testing.F) {
	f.Add("a.test", "*.a.test", "http://x.a.test/")
	f.Add("https://a.test/v1", "https://a.test/v1/x", "https://a.test/v1/x%2fy")
	f.Add("*", "::1", "http://[::1]/")
	f.Fuzz(func(t *testing.T, one, other, raw string) {
		parent, child := perdure.NetworkList{Allowed: []string{one}}, perdure.NetworkList{Allowed: []string{other}}
		byParent, _ := parent.Permits(raw)
		byChild, _ := child.Permits(raw)
		both := parent.Narrow(child)
		if ok, _ := both.Permits(raw); ok && !(byParent && byChild) {
			t.Fatalf("%q narrowed by %q permits %q", one, other, raw)
		}
		if open, _ := (perdure.NetworkList{Blocked: []string{one}}).Permits(raw); open && byParent {
			t.Fatalf("%q allows %q and does not block it", one, raw)
		}
	})
}

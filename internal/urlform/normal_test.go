package urlform_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/urlform"
)

// TestNormal: URLs of the same target have one normal form (NL3).
func TestNormal(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"http://a.test":                           "http://a.test/",
		"HTTPS://A.Test.:443/x?y#z":               "https://a.test/x?y",
		"http://a.test:080/":                      "http://a.test/",
		"http://a.test:/":                         "http://a.test/",
		"https://a.test:80/":                      "https://a.test:80/",
		"http://a.test:08080":                     "http://a.test:8080/",
		"http://[::FFFF:10.0.0.1]:81/":            "http://10.0.0.1:81/",
		"http://[0:0:0:0:0:0:0:1]/":               "http://[::1]/",
		"http://10.0.0.1./":                       "http://10.0.0.1/",
		"http://a.test/a/./b/../c/":               "http://a.test/a/c/",
		"http://a.test/../..":                     "http://a.test/",
		"http://a.test/%61%2d%2D%7e%2f%c3%a4":     "http://a.test/a--~%2F%C3%A4",
		"http://a.test/ä b":                       "http://a.test/%C3%A4%20b",
		"http://a.test/a//b":                      "http://a.test/a//b",
		"http://a.test/..a/.b/c..":                "http://a.test/..a/.b/c..",
		"http://a.test/?q=ä b%zz&../..":           "http://a.test/?q=%C3%A4%20b%zz&../..",
		"http://a.test/?":                         "http://a.test/",
		"http://xn--bcher-kva.test/":              "http://xn--bcher-kva.test/",
		"http://a_b.test/group%2fproject":         "http://a_b.test/group%2Fproject",
		"http://123abc.test/100%25":               "http://123abc.test/100%25",
		"http://a.test/%2561":                     "http://a.test/%2561",
		"http://1e100.net/":                       "http://1e100.net/",
		"http://a.test/" + strings.Repeat("a", 9): "http://a.test/aaaaaaaaa",
	}
	for in, want := range cases {
		u, err := urlform.Normal(in)
		if err != nil || u.String() != want {
			t.Errorf("%s: got %v, %v, want %s", in, u, err, want)
		}
	}
}

// TestNormalRefuses ambiguous URLs.
func TestNormalRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"scheme":             "a.test / //a.test /x file:///etc/passwd gopher://a.test javascript:alert(1) ws://a.test unix:///x http+unix://x data:,x",
		"user or a password": "http://me@a.test http://me:s3cret@a.test http://@a.test http://:@a.test http://a.test:80@b.test",
		"has no host":        "http: http:/// http:a.test http:///a.test http://?x http://#x https:/a.test",
		"odd form": "http://127.1 http://1 http://2130706433 http://0x7f000001 http://0X7F.1 http://017700000001 http://0177.0.0.1 http://127.0.0.01 " +
			"http://127.0.0.0x1 http://1.2.3.4.5 http://256.0.0.1 http://a.0x http://a.1 http://127.0.0.1.1. http://0",
		"port":                    "http://a.test:0 http://a.test:65536 http://a.test:99999999999999999999",
		"zone":                    "http://[fe80::1%25eth0] http://[::1%25lo]:80",
		"xn--":                    "http://ä.test http://раypal.test http://１２７.0.0.1 http://127。0。0。1 http://a.te​st http://a*b.test http://a!b.test http://%C3%A4.test",
		"it is empty or too long": "http://a..test http://.a.test http://a.test.. http://. http://" + strings.Repeat("a", 64) + ".test http://" + strings.Repeat("a.", 130) + "test",
		"does not parse":          "http://a.test/%zz http://[::1 http://a.test:x http://a.test/% http://a%2etest http://::1",
		"backslash":               `http://a.test\@b.test http://a.test/\..\x \\a.test`,
		"dot segment": "http://a.test/%2e%2e/x http://a.test/a/%2E./x http://a.test/..%2fx http://a.test/a%2f..%2fb http://a.test/..%5cx http://a.test/%252e%252e/x " +
			"http://a.test/%25252e%25252e%25252fx http://a.test/..;/x http://a.test/a/.;v=1/x http://a.test/%2e http://a.test/%252e%252e/%25 http://a.test/%25%32%65%25%32%65",
		"dot segments": "http://a.test/a//../b http://a.test//./",
		"escaped 8":    "http://a.test/%" + strings.Repeat("25", 9) + "41",
		"at most":      "http://a.test/" + strings.Repeat("a", 17000),
	}
	for text, urls := range cases {
		for u := range strings.FieldsSeq(urls) {
			got, err := urlform.Normal(u)
			if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got %v, %v, want an error with %q", u, got, err, text)
			}
		}
	}
	for _, u := range []string{"", "http://a.test/\n", "http://a.test/\x00", "ht\ttp://a.test", "http://a.test\r\n", "http://a b.test/", " http://a.test"} {
		if got, err := urlform.Normal(u); err == nil {
			t.Errorf("%q: got %v", u, got)
		}
	}
}

// FuzzNormal: the normal form is a fixed point, and plain to every reader.
func FuzzNormal(f *testing.F) {
	for _, raw := range []string{"http://a.test/", "https://A.test.:443/%2e%2e/x?y#z", "http://[::ffff:1.2.3.4]:80/a//b", "http://127.1", "http://u:p@h:1/", "http://a/%25%32%65"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := urlform.Normal(raw)
		if err != nil {
			return
		}
		text := u.String()
		again, err := urlform.Normal(text)
		if err != nil || again.String() != text {
			t.Fatalf("%q becomes %q, and that becomes %v, %v", raw, text, again, err)
		}
		read, err := url.Parse(text)
		if err != nil || read.Host != u.Host || read.Path != u.Path || read.User != nil || read.Fragment != "" {
			t.Fatalf("%q becomes %q, which reads as %+v, %v", raw, text, read, err)
		}
		strange := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }
		if strings.ContainsFunc(text, strange) || u.Host != strings.ToLower(u.Host) || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path+"/", "/../") {
			t.Fatalf("%q becomes %q", raw, text)
		}
	})
}

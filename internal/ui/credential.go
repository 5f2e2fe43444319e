package ui

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// signInTime is how long a browser stays signed in.
const signInTime = 30 * 24 * time.Hour

// credential is what the cookie of a browser contains: a token, and where it comes from.
type credential struct {
	secret string
	// linked states that the token was created for this browser, so signing out revokes it. Other
	// tokens belong to the person who entered them.
	linked bool
}

// The first characters of a cookie say where its token comes from.
const (
	linkedMark  = "link."
	enteredMark = "token."
)

func (c credential) String() string {
	if c.linked {
		return linkedMark + c.secret
	}
	return enteredMark + c.secret
}

// parseCredential reads the value of a cookie.
func parseCredential(text string) (c credential, ok bool) {
	secret, linked := strings.CutPrefix(text, linkedMark)
	if !linked {
		secret, ok = strings.CutPrefix(text, enteredMark)
	}
	return credential{secret: secret, linked: linked}, (ok || linked) && secret != ""
}

// secureCookie is the name of the cookie over HTTPS. With its prefix, browsers accept the cookie
// from this host only, and never send it in clear text.
const secureCookie = "__Host-perdure"

// plainCookie returns the name of the cookie over plain HTTP, which is for the loopback address
// only: some browsers take no secure cookie from there. Servers on other ports of the address share
// the cookies, so the name contains the port.
func plainCookie(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		port = "80"
	}
	return "perdure-" + port
}

// credentialOf returns the credential of a request's cookie.
func credentialOf(r *http.Request) (c credential, ok bool) {
	if cookie, err := r.Cookie(secureCookie); err == nil {
		return parseCredential(cookie.Value)
	}
	if !isLoopback(r.Host) {
		return c, false
	}
	cookie, err := r.Cookie(plainCookie(r.Host))
	if err != nil {
		return c, false
	}
	return parseCredential(cookie.Value)
}

// setCookie gives a credential to a browser; nil removes it.
func setCookie(w http.ResponseWriter, r *http.Request, c *credential) {
	cookie := &http.Cookie{Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1}
	cookie.Name = plainCookie(r.Host)
	if cookie.Secure = isEncrypted(r); cookie.Secure {
		cookie.Name = secureCookie
	}
	if c != nil {
		cookie.Value, cookie.MaxAge = c.String(), int(signInTime.Seconds())
	}
	http.SetCookie(w, cookie)
}

// isEncrypted reports whether the browser speaks HTTPS, with this server or with a proxy before it.
// The origin that a browser states says so without any setting of the proxy.
func isEncrypted(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// isLocal reports whether the browser runs on this machine, as far as it says. Behind a proxy the
// host of the request is that of the server, and the origin is what the browser shows.
func isLocal(r *http.Request) bool {
	origin, plain := strings.CutPrefix(r.Header.Get("Origin"), "http://")
	return isLoopback(r.Host) && (!plain || isLoopback(origin))
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && addr.IsLoopback()
}

package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// answerTime limits how long a provider may take for a token.
const answerTime = 20 * time.Second

// Providers are the services at which users authorize by OAuth 2.0.
type Providers struct {
	// RedirectURL is the address of the runtime at which the provider's answer arrives, for users
	// whose browser is on another machine. Empty: only the command line can authorize.
	RedirectURL string              `json:"redirect_url,omitempty"`
	All         map[string]Provider `json:"providers"` // by name
}

// Provider is a service at which users authorize by OAuth 2.0 with PKCE.
type Provider struct {
	AuthorizeURL string `json:"authorize_url"`
	TokenURL     string `json:"token_url"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"` // empty: a public client
	// AuthStyle says where the client's credentials stand in a request for a token: header or
	// params. Empty: in the header with a secret, else in the parameters.
	AuthStyle string   `json:"auth_style,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	Audience  string   `json:"audience,omitempty"` // empty: none is sent
	// Parameters are added to the authorize URL, for instance access_type: offline.
	Parameters map[string]string `json:"parameters,omitempty"`
	Hosts      []string          `json:"hosts,omitempty"` // to which requests of tools may carry the token; empty: none
}

// String hides the client's secret.
func (p Provider) String() string { return "provider at " + p.TokenURL }

// GoString hides the client's secret.
func (p Provider) GoString() string { return p.String() }

// Check returns what is wrong with the configuration. Invalid: the error says what, and contains no
// secret.
func (p Providers) Check() error {
	var faults []error
	if p.RedirectURL != "" {
		if err := checkURL("redirect_url", p.RedirectURL); err != nil {
			faults = append(faults, err)
		}
	}
	for name, one := range p.All {
		if err := one.check(); err != nil {
			faults = append(faults, fmt.Errorf("provider %.40q: %w", name, err))
		}
		if isReserved(name) || name == "" {
			faults = append(faults, fmt.Errorf("%w provider %.40q: use another name", perdure.Invalid, name))
		}
	}
	return errors.Join(faults...)
}

func (p Provider) check() error {
	err := errors.Join(checkURL("authorize_url", p.AuthorizeURL), checkURL("token_url", p.TokenURL), checkHosts(p.Hosts))
	if p.ClientID == "" {
		err = errors.Join(err, fmt.Errorf("%w client_id: it is empty", perdure.Invalid))
	}
	if p.AuthStyle != "" && p.AuthStyle != "header" && p.AuthStyle != "params" {
		err = errors.Join(err, fmt.Errorf("%w auth_style %.20q: use header or params", perdure.Invalid, p.AuthStyle))
	}
	for name := range p.Parameters {
		switch name {
		case "response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method":
			err = errors.Join(err, fmt.Errorf("%w parameter %s: it is set by the runtime", perdure.Invalid, name))
		}
	}
	return err
}

// checkURL refuses what is no URL, and plain HTTP to another machine, where others could read codes
// and tokens.
func checkURL(what, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%w %s: use an https URL without user and fragment", perdure.Invalid, what)
	case u.Scheme == "http" && !isLoopback(u):
		return fmt.Errorf("%w %s: use https; plain http is allowed only for an address of this machine", perdure.Invalid, what)
	}
	return nil
}

// isLoopback reports whether a URL names this machine by its address.
func isLoopback(u *url.URL) bool {
	return u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" || u.Hostname() == "localhost"
}

// client returns the client of the library for a redirect URL.
func (p Provider) client(redirect string) *oauth2.Config {
	style := oauth2.AuthStyleInHeader // never probed: a second attempt could use up a code or a refresh token
	if p.AuthStyle == "params" || p.AuthStyle == "" && p.ClientSecret == "" {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: redirect, Scopes: p.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: p.AuthorizeURL, TokenURL: p.TokenURL, AuthStyle: style}}
}

// authorizeURL returns the URL that the user opens.
func (p Provider) authorizeURL(f flow, state string) string {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(f.Verifier)}
	for name, value := range p.Parameters {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	if p.Audience != "" {
		options = append(options, oauth2.SetAuthURLParam("audience", p.Audience))
	}
	return p.client(f.Redirect).AuthCodeURL(state, options...)
}

// refused is the answer of a provider for which the user's code or grant is not valid. Another
// attempt cannot help: the user has to authorize again.
type refused struct{ code string }

// Error returns the provider's code.
func (e *refused) Error() string { return "the provider answered " + e.code }

// request asks the provider for a token, as get does. The error is *refused, or of
// kind Unavailable; it contains nothing of the answer's body but the error code.
func (p Provider) request(ctx context.Context, get func(context.Context) (*oauth2.Token, error)) (*oauth2.Token, error) {
	base, err := url.Parse(p.TokenURL)
	if err != nil {
		return nil, fmt.Errorf("%w token_url", perdure.Invalid)
	}
	base.RawQuery = ""
	client, err := egress.ForURL(base.String())
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	token, err := get(context.WithValue(ctx, oauth2.HTTPClient, client))
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer) && answer.Response != nil:
		return nil, faultOf(answer, base.Host)
	case err != nil:
		var failed *perdure.EgressError
		if errors.As(err, &failed) {
			return nil, fmt.Errorf("%w: %s", perdure.Unavailable, failed.Text)
		}
		return nil, fmt.Errorf("%w: %s gave no usable answer", perdure.Unavailable, base.Host)
	case token.AccessToken == "" || len(token.AccessToken)+len(token.RefreshToken) > maxTokenBytes:
		return nil, fmt.Errorf("%w: %s gave no usable token", perdure.Unavailable, base.Host)
	}
	return token, nil
}

// faultOf returns the error for an answer without a token. Some providers answer with the status
// 200, so the code decides, if there is one.
func faultOf(answer *oauth2.RetrieveError, host string) error {
	code, status := plainCode(answer.ErrorCode), answer.Response.StatusCode
	switch {
	case endsGrant(answer.ErrorCode):
		return &refused{code}
	case code == "":
		return fmt.Errorf("%w: %s answered with the status %d", perdure.Unavailable, host, status)
	case code == "temporarily_unavailable" || code == "server_error" || status >= 500 || status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s answered %s", perdure.Unavailable, host, code)
	}
	return fmt.Errorf("%w: %s answered %s: let an administrator check the entry of this provider in oauth.json; if it is right, connect again",
		perdure.Unavailable, host, code)
}

// endsGrant reports whether an error code says that the user has to authorize again. All other
// codes are about the client or the request: a mistake of the operator must not end the connections
// of all users.
func endsGrant(code string) bool {
	switch code {
	case "invalid_grant", // RFC 6749
		"access_denied", "consent_required", "interaction_required", "login_required", // OpenID Connect
		"bad_refresh_token", "bad_verification_code", // GitHub
		"expired_token", "invalid_refresh_token", "token_expired", "token_revoked": // others
		return true
	}
	return false
}

// plainCode cuts an error code of a provider to what can be shown.
func plainCode(code string) string {
	code = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, code)
	return code[:min(len(code), 100)]
}

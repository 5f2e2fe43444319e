package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/redact"
)

// oauthFile is the file of a data directory that lists the services at which users authorize their
// connections.
const oauthFile = "oauth.json"

// maxOAuthBytes bounds the size of that file.
const maxOAuthBytes = 1 << 20

// oauthProviders returns a function that reads the file of a data directory each time, so that a
// change needs no new start. known receives the secrets of the clients.
func oauthProviders(dir string, known *redact.Set) func() (local.OAuthProviders, error) {
	return func() (local.OAuthProviders, error) {
		all, err := readOAuthConfig(dir)
		for _, one := range all.All {
			if known != nil && one.ClientSecret != "" {
				known.Add(one.ClientSecret)
			}
		}
		return all, err
	}
}

// readOAuthConfig reads the file of a data directory. A missing file is empty. ${NAME} in the
// client's id and secret is a variable of the environment. Invalid: what is wrong with the file.
func readOAuthConfig(dir string) (all local.OAuthProviders, err error) {
	if dir == "" {
		return all, nil
	}
	path := filepath.Join(dir, oauthFile)
	found, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil && (!found.Mode().IsRegular() || found.Size() > maxOAuthBytes) {
		err = fmt.Errorf("it is not a file of at most %d bytes", maxOAuthBytes)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err == nil {
		all, err = parseOAuthConfig(text, os.Getenv)
	}
	if err != nil {
		return local.OAuthProviders{}, fmt.Errorf("%w file %s: %w", perdure.Invalid, path, err)
	}
	return all, nil
}

// parseOAuthConfig reads the text of the file.
func parseOAuthConfig(text []byte, getenv func(string) string) (all local.OAuthProviders, err error) {
	if err := perdure.DecodeJSON(text, &all); err != nil {
		return local.OAuthProviders{}, err
	}
	var faults []error
	for name, one := range all.All {
		for _, field := range []struct {
			name  string
			value *string
		}{{"client_id", &one.ClientID}, {"client_secret", &one.ClientSecret}} {
			filled, _, err := insertVariables(field.name, *field.value, getenv)
			if err != nil {
				faults = append(faults, fmt.Errorf("%w provider %.40q: %w", perdure.Invalid, name, err))
			}
			*field.value = filled
		}
		all.All[name] = one
	}
	if err := errors.Join(faults...); err != nil {
		return local.OAuthProviders{}, err
	}
	return all, all.Check()
}

package shell

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Permissions implements tool.Guarded: a command needs the permission to use each secret that it
// names.
func (b *Bash) Permissions(call tool.Call) (needed []perdure.Permission) {
	args, err := tool.Decode[arguments](call)
	if err != nil {
		return nil // the call is refused for its arguments
	}
	for _, name := range args.Secrets {
		needed = append(needed, perdure.Permission{Kind: tool.UseSecret, Target: name,
			Reason: "the command has the secret in its environment, and can do with it what its network and its files allow"})
	}
	return needed
}

// secrets returns the variables with the secrets that a call names. The error says why a command
// may not have one of them; no secret is opened then.
func (b *Bash) secrets(ctx context.Context, call tool.Call, env tool.Env) (variables []string, err error) {
	args, err := tool.Decode[arguments](call)
	if err != nil || len(args.Secrets) == 0 {
		return nil, err
	}
	switch {
	case env.Secrets == nil:
		return nil, tool.Errorf("This session stores no secrets.")
	case env.SecretMasker == nil:
		return nil, tool.Errorf("The secrets of this session cannot be used, because nothing masks them in the output here.")
	}
	for _, name := range args.Secrets {
		if err := b.checkSecret(ctx, name, env); err != nil {
			return nil, err
		}
	}
	for _, name := range args.Secrets {
		value, err := env.Secrets.Reveal(ctx, name)
		switch {
		case errors.Is(err, perdure.Invalid), errors.Is(err, perdure.Unavailable):
			return nil, tool.Errorf("The secret %s cannot be decrypted; a person must fix this: %s", name, err)
		case err != nil:
			return nil, err
		case strings.ContainsRune(value, 0):
			return nil, tool.Errorf("The secret %s contains a zero byte, which no environment variable can have.", name)
		}
		variables = append(variables, name+"="+value)
	}
	return variables, nil
}

// checkSecret returns why a command may not have a secret.
func (b *Bash) checkSecret(ctx context.Context, name string, env tool.Env) error {
	taken := slices.ContainsFunc(b.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	switch {
	case !isVariable(name):
		return tool.Errorf("The secret %q cannot be used in a command: its name is not that of an environment variable (letters, digits and _, not beginning with a digit).", name)
	case taken, strings.HasPrefix(name, "LD_"), slices.Contains([]string{"HOME", "PATH", "TMPDIR", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS"}, name):
		return tool.Errorf("The secret %s cannot be used in a command: the variable of that name changes how commands run. Store it under another name.", name)
	}
	_, err := env.Secrets.Secret(ctx, name)
	switch {
	case errors.Is(err, perdure.NotFound):
		return tool.Errorf("Secret not found: %s", name)
	case err != nil:
		return err
	case !slices.ContainsFunc(env.Call.Granted, func(p perdure.Permission) bool { return p.Kind == tool.UseSecret && p.Target == name }):
		return tool.Errorf("The command may not have the secret %s, because nobody has allowed it. %s",
			name, strings.ReplaceAll(b.secretAdvice, "{name}", name))
	}
	return nil
}

// isVariable reports whether a name is that of an environment variable.
func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

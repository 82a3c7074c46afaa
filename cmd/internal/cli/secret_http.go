package cli

import (
	"github.com/spf13/pflag"

	"sallyport/gateway/api"
)

// httpKinds is told by --help: what each way to send a credential needs, and what its value is.
const httpKinds = `
Kinds, and what the value is:
  bearer      the token, sent as Authorization: Bearer
  basic       the password of --username
  header      the key, sent in the header --header; --format 'token %s' for more around it
  query       the key, sent as the value of the query key --param
  cookie      the value of the cookie --param
  path        one or more path segments, put in after the first --param segments of the
              agent's path (0 by default); --format 'bot%s' for more around it
  sigv4       ACCESSKEYID:SECRET[:SESSIONTOKEN], or the JSON that "aws sts" prints;
              --region and --service
  oauth2      with --grant client-credentials the client's secret; with --grant refresh the
              refresh token, or {"clientSecret":"…","refreshToken":"…"}; --token-url and
              --client-id. Tokens are fetched when they are needed, and kept in the vault.
  github-app  the app's private key (PEM); --app-id and --installation
  mtls        the client's certificate chain and private key (PEM, in one text)
  ssh-key     a private key file, for "sp host add"; below it the line of a -cert.pub file,
              where there is one
  ssh-password  an account's password, for hosts that take no key
  ssh-ca      a private key that signs a certificate for each call: see "sp host ca"

A preset fills in what is known of a service: see "sp secret presets". What is said
beside --preset replaces its part of it: --allow replaces all of its rules.`

// httpFlags are the flags of an HTTP credential's rules. Each has the name of its field: --allow-http is allowHttp in JSON
// and allow_http in an apply file.
func httpFlags(f *pflag.FlagSet, r *api.HTTPRules) {
	f.StringArrayVar(&r.Allow, "allow", nil, "`RULE`: METHODS ORIGIN/PATH-PATTERN; * is one segment, ** the rest, {raw} one that may hold %2F; ?KEY=PATTERN holds a query key (repeatable)")
	f.StringArrayVar(&r.AllowHeader, "allow-header", nil, "a header the agent may set: `NAME[=PATTERN]` (repeatable)")
	f.StringArrayVar(&r.AllowNetwork, "allow-network", nil, "a private or loopback network it may reach: `CIDR`, as in 127.0.0.1/32 (repeatable)")
	f.BoolVar(&r.AllowHTTP, "allow-http", false, "rules may say http:// also for hosts other than loopback")
	f.StringVar(&r.Scrub, "scrub", "", "on (default) or off: mask the secret in answers")
	f.StringVar(&r.IdempotencyHeader, "idempotency-header", "", "the header in which the service takes an idempotency key: `NAME`")
	f.StringArrayVar(&r.Capture, "capture", nil, "keep the token at this `POINTER` of a JSON answer in the vault, as /access_token, and show a reference (repeatable)")
	f.StringVar(&r.JobID, "job-id", "", "where a write's answer names the remote job it started: `json:/id`, header:NAME or location")
	f.StringVar(&r.JobStatus, "job-status", "", "the request that asks for a job: 'GET `PATH`', with {id} as one segment")
	f.StringVar(&r.JobCancel, "job-cancel", "", "the request that cancels a job: 'DELETE `PATH`', with {id} as one segment")
	f.StringArrayVar(&r.SPKIPin, "spki-pin", nil, "`sha256/BASE64` of a public key that must be in the host's certificate chain (repeatable)")
	f.StringVar(&r.Probe, "probe", "", "a read for \"sp secret test\", as `'GET /user'`")
	f.StringVar(&r.Username, "username", "", "basic: the user's `NAME`")
	f.StringVar(&r.Header, "header", "", "header: the header's `NAME`")
	f.StringVar(&r.Format, "format", "", "header, path: what is sent, %s standing for the secret, as in 'token %s'")
	f.StringVar(&r.Param, "param", "", "query, cookie: the `NAME` that carries it; path: how many segments stand before it")
	f.StringVar(&r.Region, "region", "", "sigv4: as in us-east-1")
	f.StringVar(&r.Service, "service", "", "sigv4: as in s3")
	f.StringVar(&r.TokenURL, "token-url", "", "oauth2: the token endpoint's `URL`; github-app: the API's, if it is not github.com's")
	f.StringVar(&r.ClientID, "client-id", "", "oauth2: the client's `ID`")
	f.StringArrayVar(&r.OAuthScope, "oauth-scope", nil, "oauth2: a `SCOPE` to ask for (repeatable)")
	f.StringVar(&r.Grant, "grant", "", "oauth2: client-credentials or refresh")
	f.StringVar(&r.TokenAuth, "token-auth", "", "oauth2: where the client's secret goes: header (default), or body, as Google wants it")
	f.StringVar(&r.AppID, "app-id", "", "github-app: the app's `ID`")
	f.StringVar(&r.Installation, "installation", "", "github-app: the installation's `NUMBER`")
}

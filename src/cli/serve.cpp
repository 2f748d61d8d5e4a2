// hearth serve: the table of its options.
#include "cli/serve.h"

#include "cli/commands.h"
#include "cli/model_options.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "MODEL",
     .kind = ValueKind::Model,
     .required = false,
     .help = "GGUF files or models' names, each served under its name; NAME=FILE gives another one. None: the default "
             "model, fetched on first use.",
     .repeats = true}};

constexpr Option kOptions[] = {
    {.name = "host",
     .kind = ValueKind::Text,
     .value_name = "ADDRESS",
     .help = "Address to listen on. Any but a loopback address needs a key.",
     .default_text = "127.0.0.1"},
    {.name = "port",
     .letter = 'p',
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Port; 0 is any free one.",
     .default_text = "8080"},
    {.name = "key",
     .kind = ValueKind::Text,
     .value_name = "KEY",
     .help =
         "An API key that clients must send; may be given several times. Callers with different keys share nothing.",
     .default_text = "HEARTH_API_KEY, else none"},
    {.name = "tls-cert", .kind = ValueKind::File, .value_name = "PEM", .help = "Certificate chain: serve over TLS."},
    {.name = "tls-key", .kind = ValueKind::File, .value_name = "PEM", .help = "Private key of the certificate."},
    {.name = "allow-host",
     .kind = ValueKind::Text,
     .value_name = "NAME",
     .help = "A host name under which clients reach this server; may be given several times."},
    {.name = "allow-origin",
     .kind = ValueKind::Text,
     .value_name = "URL",
     .help = "An origin whose web pages may use this server; may be given several times."},
    kContextOption,
    kThreadsOption,
    kThreadsPrefillOption,
    kIsaOption,
    kPackOption,
    kPrefillOption,
    kKvOption,
    {.name = "kv-memory",
     .kind = ValueKind::Whole,
     .value_name = "MB",
     .help = "Memory for the KV of all answers and of what is remembered of earlier ones, per model.",
     .default_text = "half of what is free"},
    {.name = "parallel",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Answers computed at once at most; others wait.",
     .default_text = "64"},
    {.name = "queue",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Answers waiting at most; others are refused with 429.",
     .default_text = "256"},
    {.name = "max-body",
     .kind = ValueKind::Whole,
     .value_name = "MB",
     .help = "Largest request body.",
     .default_text = "16"},
    {.name = "max-connections",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Open connections at most.",
     .default_text = "4096"},
    {.name = "header-timeout",
     .kind = ValueKind::Whole,
     .value_name = "SECONDS",
     .help = "How long a client may take for the header of a request, or for a TLS handshake.",
     .default_text = "10"},
    {.name = "client-timeout",
     .kind = ValueKind::Whole,
     .value_name = "SECONDS",
     .help = "How long a client may take for the body of a request, and how long it may take nothing of its answer.",
     .default_text = "60"},
    {.name = "trees",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "Trees kept at most; the one not used for the longest goes first.",
     .default_text = "64"},
    {.name = "grace",
     .kind = ValueKind::Whole,
     .value_name = "SECONDS",
     .help = "How long running answers may take to end after SIGTERM or Ctrl-C; a second signal ends at once.",
     .default_text = "30"},
    {.name = "log", .help = "Write a line to standard error for each request."},
};

constexpr Example kExamples[] = {
    {"hearth serve", "Serves the default model on http://127.0.0.1:8080."},
    {"hearth serve smollm2-135m big=/models/qwen.gguf --port 9000", "Two models, smollm2-135m and big."},
    {"HEARTH_API_KEY=secret hearth serve --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem",
     "For other machines, over TLS, with a key."}};

}  // namespace

const Command kServeCommand = {
    "serve",
    "Serve models over HTTP: OpenAI's and Anthropic's APIs, and a page",
    "Listens at once and loads the models in the background (/health shows how far). The address goes to standard "
    "output, everything else to standard error. The API is described in docs/api.md. SIGTERM or Ctrl-C refuses new "
    "work, lets running answers end and exits with 0.",
    kPositionals,
    kOptions,
    kExamples,
    serve_models};

}  // namespace hearth

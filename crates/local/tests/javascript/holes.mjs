// What does not work on the local server, by package and method, and why.
const image = 'the local server has no images: it fetches none, and builds on this machine\'s programs (`fromBaseImage`, `fromTemplate`)'
const network = 'the tests\' server reaches no network (`--network egress` would), so a build installs nothing from a registry'
const gateway = 'there is no template `mcp-gateway`: its servers are images'
const edge = 'placeholders are filled in by rules of egress for each host, which are kept and told, not carried out: that takes a proxy that opens TLS'
const container = 'needs the `devcontainer` program of the template `devcontainer`, which is an image'
const account = 'signs in with a browser at E2B, not at the server that is asked for sandboxes'

const images = ['Alpine', 'Arch', 'Bun', 'Debian', 'Fedora', 'Node', 'Python', 'Ubuntu'].map((name) => `from${name}Image`)

export const HOLES = {
  e2b: {
    'Sandbox.getMcpUrl': gateway,
    'Sandbox.getMcpToken': gateway,
    'Template.addMcpServer': gateway,
    ...Object.fromEntries([...images, 'fromAWSRegistry', 'fromGCPRegistry'].map((name) => [`Template.${name}`, image])),
    'Template.aptInstall': `${network}; /usr is the machine's and cannot be written`,
    'Template.bunInstall': network,
    'Template.npmInstall': network,
    'Template.pipInstall': network,
    'Template.betaDevContainerPrebuild': container,
    'Template.betaSetDevContainerStart': container,
    'Secret.fill': edge,
    'Secret.iamToken': edge,
  },
  '@e2b/cli': {
    'auth login': account,
    'auth logout': account,
    'auth info': account,
    'auth configure': account,
    'sandbox connect': 'takes over a terminal, and the tests have none; `sandbox exec` and the SDKs\' terminals are driven',
    'template init': 'asks questions on a terminal and writes files; it speaks to no server',
    'template migrate': 'rewrites files of older projects; it speaks to no server',
  },
}

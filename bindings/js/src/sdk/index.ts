/** The sandbox SDK, with the official one's names. */

export type { Outcome } from '../policy/types.ts';
export type { Attempt } from '../retry/history.ts';
export type { AttemptEvent, EndEvent, LogEvent } from '../retry/log.ts';
export { E2B, type E2BClientOpts } from './client.ts';
export { Commands } from './commands/commands.ts';
export type { DurableOpts } from './commands/durable/durable.ts';
export type { Offsets } from './commands/durable/following.ts';
export type { CommandEvent } from './commands/events.ts';
export { CommandHandle, type CommandRequestOpts, type PtyOutput, type Stderr, type Stdout } from './commands/handle.ts';
export type {
  CommandAttachOpts,
  CommandConnectOpts,
  CommandForgetOpts,
  CommandStartOpts,
  FollowOpts,
  ProcessInfo,
} from './commands/options.ts';
export {
  ConnectionConfig,
  type ConnectionConfigOpts,
  type ConnectionOpts,
  type Logger,
  type Username,
} from './config.ts';
export * from './errors.ts';
export type { FileData } from './files/data.ts';
export { type EntryInfo, FileType, type WriteInfo } from './files/entry.ts';
export {
  Filesystem,
  type FilesystemListOpts,
  type FilesystemReadOpts,
  type FilesystemRequestOpts,
} from './files/filesystem.ts';
export type { DirectoryTransferOpts, TransferProgress, Transferred } from './files/tree.ts';
export type { FilesystemTransferOpts, UploadSource } from './files/upload.ts';
export { type FilesystemEvent, FilesystemEventType, WatchHandle, type WatchOpts } from './files/watch.ts';
export type { FilesystemWriteOpts, WriteEntry } from './files/write.ts';
export { Git } from './git/git.ts';
export type * from './git/types.ts';
export { Paginator } from './paginator.ts';
export { Pty, type PtyConnectOpts, type PtyCreateOpts } from './pty.ts';
export {
  ALL_TRAFFIC,
  type SandboxEgressProxyInfo,
  type SandboxEgressProxyOpts,
  type SandboxIamOpts,
  type SandboxIamToken,
  type SandboxIamTokenType,
  type SandboxNetworkInfo,
  type SandboxNetworkOpts,
  type SandboxNetworkRule,
  type SandboxNetworkRuleInfo,
  type SandboxNetworkRules,
  type SandboxNetworkSelector,
  type SandboxNetworkSelectorContext,
  type SandboxNetworkTransform,
  type SandboxNetworkTransformContext,
  type SandboxNetworkTransformResolver,
  type SandboxNetworkUpdate,
} from './sandbox/network.ts';
export type { Leftover } from './sandbox/once.ts';
export { SandboxPaginator, SnapshotPaginator } from './sandbox/paginators.ts';
export { Sandbox, type SandboxConstructorOpts } from './sandbox/sandbox.ts';
export { getSignature, type SignatureOpts } from './sandbox/signature.ts';
export type * from './sandbox/types.ts';
export * from './secret.ts';
export type { BuildInfo } from './template/build.ts';
export type {
  Packages,
  TemplateBuilder,
  TemplateFinal,
  TemplateFromImage,
  TemplateOptions,
} from './template/builder.ts';
export {
  type BuildStatusReason,
  defaultBuildLogger,
  LogEntry,
  LogEntryEnd,
  type LogEntryLevel,
  LogEntryStart,
  type TemplateBuildStatus,
  type TemplateBuildStatusResponse,
} from './template/logs.ts';
export { ReadyCmd, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } from './template/ready.ts';
export type { CopyItem, PathLike } from './template/recipe.ts';
export {
  type BasicBuildOptions,
  type BuildOptions,
  type CallableTemplate,
  type GetBuildStatusOptions,
  Template,
  TemplateBase,
  type TemplateClass,
  type TemplateTag,
  type TemplateTagInfo,
} from './template/template.ts';
export type * from './volume/types.ts';
export { Volume } from './volume/volume.ts';
export { type VolumeEntryStat, VolumeFileType } from './volume/wire.ts';
